"""Discovery of plug-ins in installed distributions and in the directories of `plugin.path`.

A plug-in is a concrete class derived from one of the kinds of `api`. There are two places for it:

- A distribution names its plug-ins as entry points, in the group of their kind (`GROUPS`). Built-in plug-ins are
  registered in this way, too. Entry points are read when a worker starts. A plug-in is imported when a configuration
  names it, or when all plug-ins are listed. An entry point that names a module instead of a class stands for all
  plug-ins of the module.
- `plugin.path` lists directories. Their Python files and packages are imported when a worker starts. The directories
  join the import path.

A configuration may name a plug-in by its full name (`ottla.connect.plugins.connectors.file.FileStreamSourceConnector`),
by its class (`FileStreamSourceConnector`), by the name of its entry point, by an alias, such as the Java class that it
stands for, or by its class without the word for its kind (`FileStreamSource`). A plug-in that cannot be imported is
left out and the reason kept in `Plugins.failures`: it does not stop the worker.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import logging
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeVar

from ottla.connect.api import (
    ConfigProvider,
    ConnectError,
    Connector,
    Converter,
    Plugin,
    Predicate,
    SinkConnector,
    SourceConnector,
    Transform,
)

__all__ = ["GROUPS", "FoundPlugin", "Plugins", "full_name"]

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Plugin)

# The groups of entry points, and the kind of plug-in in each.
GROUPS: dict[str, type[Plugin]] = {
    "ottla.connectors": Connector,
    "ottla.converters": Converter,
    "ottla.transforms": Transform,
    "ottla.predicates": Predicate,
    "ottla.config_providers": ConfigProvider,
    # Any kind.
    "ottla.connect": Plugin,
}
_OWN = "ottla.connect.plugins"
_OWN_PACKAGES = ("connectors", "converters", "transforms", "predicates", "providers")
# The words of `GET /connector-plugins`, in Kafka's order, and the endings that a name may leave out.
_KINDS: tuple[tuple[type[Plugin], str, str], ...] = (
    (SinkConnector, "sink", "Connector"),
    (SourceConnector, "source", "Connector"),
    (Converter, "converter", "Converter"),
    (Transform, "transformation", "Transform"),
    (Predicate, "predicate", "Predicate"),
    (ConfigProvider, "configprovider", "ConfigProvider"),
)


class FoundPlugin(NamedTuple):
    name: str
    kind: str
    version: str
    plugin: type[Plugin]
    # The name of the entry point, if the plug-in has one.
    entry_point: str = ""


class _Registration(NamedTuple):
    """An entry point that has not been imported yet."""

    kind: type[Plugin]
    point: EntryPoint

    def offers(self, kind: type[Plugin]) -> bool:
        """True if plug-ins of this kind may be behind the entry point."""
        return issubclass(kind, self.kind) or issubclass(self.kind, kind)

    def may_have(self, name: str) -> bool:
        """True if the plug-in may have this name. A module may hold plug-ins of any name."""
        module, attribute = self.point.module, self.point.attr
        return not attribute or name in (f"{module}.{attribute}", attribute, self.point.name)


class Plugins:
    """Plug-ins by name. Methods may be called by any thread."""

    def __init__(self, paths: Iterable[str] = (), *, installed: bool = True) -> None:
        self.paths = [str(Path(path).absolute()) for path in paths if path]
        # Entry points, modules and directories that could not be imported, and why.
        self.failures: dict[str, str] = {}
        self._plugins: dict[str, FoundPlugin] = {}
        self._registered: list[_Registration] = []
        self._lock = threading.RLock()
        if installed:
            self._register_installed()
        for path in self.paths:
            self._scan_directory(Path(path))

    def add(self, plugin: type[Plugin], entry_point: str = "") -> None:
        """Adds a class that has neither an entry point nor a place on `plugin.path`, for tests and embedding."""
        for kind, word, _ in _KINDS:
            if issubclass(plugin, kind):
                name = full_name(plugin)
                with self._lock:
                    self._plugins.setdefault(name, FoundPlugin(name, word, plugin.version, plugin, entry_point))

    def all(self) -> list[FoundPlugin]:
        """Every plug-in, by kind and then by name. Imports all of them."""
        with self._lock:
            self._import_registered(lambda _: True)
            return self._sorted(Plugin)

    def find(self, name: str, kind: type[T]) -> type[T]:
        """The plug-in of this kind and name. Raises ConnectError with the names of all plug-ins of the kind."""
        name = _present_name(name)
        with self._lock:
            self._import_registered(lambda registration: registration.offers(kind) and registration.may_have(name))
            plugin = self._match(name, kind, (_is_full_name, _is_class_name))
            if plugin is None:
                # Aliases are attributes of the classes, so all classes of the kind must be imported.
                self._import_registered(lambda registration: registration.offers(kind))
                plugin = self._match(name, kind, (_is_alias, _is_short_name))
            if plugin is None:
                known = ", ".join(candidate.name for candidate in self._sorted(kind))
                raise ConnectError(f"There is no {kind.__name__} called {name}. There are: {known or 'none'}.")
            return plugin

    def connector(self, name: str) -> type[Connector]:
        return self.find(name, Connector)  # type: ignore[type-abstract]

    def any(self, name: str) -> type[Plugin]:
        return self.find(name, Plugin)

    def make(self, name: str, kind: type[T]) -> T:
        return self.find(name, kind)()

    def _sorted(self, kind: type[Plugin]) -> list[FoundPlugin]:
        order = {word: place for place, (_, word, _) in enumerate(_KINDS)}
        candidates = [candidate for candidate in self._plugins.values() if issubclass(candidate.plugin, kind)]
        return sorted(candidates, key=lambda candidate: (order[candidate.kind], candidate.name))

    def _match(self, name: str, kind: type[T], rules: tuple[Callable[[FoundPlugin, str], bool], ...]) -> type[T] | None:
        """The plug-in that the first rule with a match selects."""
        for matches in rules:
            matching = [candidate for candidate in self._sorted(kind) if matches(candidate, name)]
            if len(matching) == 1:
                return matching[0].plugin  # type: ignore[return-value]
            if matching:
                names = ", ".join(candidate.name for candidate in matching)
                raise ConnectError(f"More than one plug-in is called {name}: {names}.")
        return None

    # Installed distributions.

    def _register_installed(self) -> None:
        self._registered = [
            _Registration(kind, point)
            for group, kind in GROUPS.items()
            for point in importlib.metadata.entry_points(group=group)
        ]
        if not any(registration.point.value.startswith(_OWN) for registration in self._registered):
            logger.warning("The metadata of this installation of ottla has no plug-ins; run pip install again")
            for package in _OWN_PACKAGES:
                self._scan_package(f"{_OWN}.{package}")

    def _import_registered(self, wanted: Callable[[_Registration], bool]) -> None:
        due = [registration for registration in self._registered if wanted(registration)]
        self._registered = [registration for registration in self._registered if registration not in due]
        for kind, point in due:
            try:
                target = point.load()
            except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way
                self._failed(point.value, error)
                continue
            if isinstance(target, ModuleType):
                self._add_all_of(target)
            elif isinstance(target, type) and issubclass(target, kind) and not inspect.isabstract(target):
                self.add(target, point.name)
            else:
                self._failed(point.value, TypeError(f"it is registered in {point.group} and is no {kind.__name__}"))

    # Modules.

    def _scan_package(self, name: str) -> None:
        package = self._import(name)
        if package is not None:
            self._scan_modules(package.__path__, name + ".")

    def _scan_directory(self, directory: Path) -> None:
        if not directory.is_dir():
            self.failures[str(directory)] = "is not a directory"
            logger.warning("plugin.path: %s is not a directory", directory)
            return
        if str(directory) not in sys.path:
            sys.path.append(str(directory))
        importlib.invalidate_caches()
        self._scan_modules([str(directory)], "")

    def _scan_modules(self, paths: Iterable[str], prefix: str) -> None:
        for module in pkgutil.walk_packages(paths, prefix):
            if module.name.split(".")[0] in ("setup", "conftest") or module.name.split(".")[-1].startswith("test_"):
                continue
            imported = self._import(module.name)
            if imported is not None:
                self._add_all_of(imported)

    def _import(self, name: str) -> ModuleType | None:
        try:
            return importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way
            self._failed(name, error)
            return None

    def _failed(self, name: str, error: Exception) -> None:
        self.failures[name] = f"{type(error).__name__}: {error}"
        logger.warning("Plug-in %s is left out: %s", name, self.failures[name])

    def _add_all_of(self, module: ModuleType) -> None:
        for plugin in _plugins_of(module):
            self.add(plugin)


def full_name(plugin: type[Plugin]) -> str:
    return f"{plugin.__module__}.{plugin.__qualname__}"


def _present_name(name: str) -> str:
    """The present full name of a built-in plug-in that a stored configuration names by its former package."""
    root, _, rest = name.partition("ottla.connect.")
    if not root and rest.partition(".")[0] in _OWN_PACKAGES:
        return f"{_OWN}.{rest}"
    return name


def _plugins_of(module: ModuleType) -> Iterator[type[Plugin]]:
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, Plugin)
            and value.__module__ == module.__name__
            and not value.__name__.startswith("_")
            and not inspect.isabstract(value)
        ):
            yield value


def _is_full_name(candidate: FoundPlugin, name: str) -> bool:
    return candidate.name == name


def _is_class_name(candidate: FoundPlugin, name: str) -> bool:
    return name in (candidate.plugin.__qualname__, candidate.entry_point)


def _is_alias(candidate: FoundPlugin, name: str) -> bool:
    return name in candidate.plugin.aliases


def _is_short_name(candidate: FoundPlugin, name: str) -> bool:
    ending = next(ending for _, word, ending in _KINDS if word == candidate.kind)
    for known in (candidate.plugin.__qualname__, *(alias.rpartition(".")[2] for alias in candidate.plugin.aliases)):
        if name in (known, known.removesuffix(ending)):
            return True
    return False
