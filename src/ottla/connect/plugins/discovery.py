"""Finding plug-ins: our own, those of installed packages, and those in the directories of `plugin.path`.

A plug-in is a concrete class derived from one of the kinds of `api`. Three places are looked at, in this order:

- our own packages (`connectors`, `converters`, `transforms`, `predicates`, `providers`): every module in them;
- entry points of installed packages, in the group `ottla.connect`: each names a module or a class;
- `plugin.path`: each directory's Python files and packages. The directory joins the import path.

A configuration may name a plug-in by its full name (`ottla.connect.plugins.connectors.file.FileStreamSourceConnector`),
by its class (`FileStreamSourceConnector`), by its class without the word for its kind (`FileStreamSource`), or by an
alias, such as the name of the Java class it stands for. A module that cannot be imported is left out and its reason
kept: one broken plug-in does not stop a worker.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

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

__all__ = ["FoundPlugin", "Plugins", "full_name"]

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Plugin)

ENTRY_POINTS = "ottla.connect"
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


class Plugins:
    def __init__(self, paths: Iterable[str] = (), *, own: bool = True) -> None:
        self.paths = [str(Path(path).absolute()) for path in paths if path]
        # Modules that could not be imported, and why.
        self.failures: dict[str, str] = {}
        self._found: dict[str, FoundPlugin] = {}
        if own:
            for package in _OWN_PACKAGES:
                self._scan_package(f"ottla.connect.plugins.{package}")
            self._scan_entry_points()
        for path in self.paths:
            self._scan_directory(Path(path))

    def add(self, plugin: type[Plugin]) -> None:
        """Makes a class known that lies nowhere of the above, for tests and embedding."""
        for kind, word, _ in _KINDS:
            if issubclass(plugin, kind):
                name = full_name(plugin)
                self._found.setdefault(name, FoundPlugin(name, word, plugin.version, plugin))

    def all(self) -> list[FoundPlugin]:
        """By kind, then by name."""
        order = {word: place for place, (_, word, _) in enumerate(_KINDS)}
        return sorted(self._found.values(), key=lambda one: (order[one.kind], one.name))

    def find(self, name: str, kind: type[T]) -> type[T]:
        """The one plug-in of a kind that is meant by a name; raises ConnectError with what there is."""
        candidates = [one for one in self.all() if issubclass(one.plugin, kind)]
        name = _present_name(name)
        for matches in (_is_full_name, _is_class_name, _is_alias, _is_short_name):
            matching = [one for one in candidates if matches(one, name)]
            if len(matching) == 1:
                return matching[0].plugin  # type: ignore[return-value]
            if matching:
                raise ConnectError(f"More than one plug-in is called {name}: {', '.join(o.name for o in matching)}.")
        known = ", ".join(one.name for one in candidates)
        raise ConnectError(f"There is no {kind.__name__} called {name}. There are: {known or 'none'}.")

    def connector(self, name: str) -> type[Connector]:
        return self.find(name, Connector)  # type: ignore[type-abstract]

    def any(self, name: str) -> type[Plugin]:
        return self.find(name, Plugin)

    def make(self, name: str, kind: type[T]) -> T:
        return self.find(name, kind)()

    # Looking.

    def _scan_package(self, name: str) -> None:
        if importlib.util.find_spec(name) is None:
            return
        package = self._import(name)
        if package is None:
            return
        self._scan_module(package)
        for module in pkgutil.walk_packages(package.__path__, name + "."):
            found = self._import(module.name)
            if found is not None:
                self._scan_module(found)

    def _scan_entry_points(self) -> None:
        for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
            try:
                found: Any = point.load()
            except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way
                self._failed(point.value, error)
                continue
            if isinstance(found, ModuleType):
                self._scan_module(found)
            elif isinstance(found, type) and issubclass(found, Plugin):
                self.add(found)

    def _scan_directory(self, directory: Path) -> None:
        if not directory.is_dir():
            self.failures[str(directory)] = "is not a directory"
            logger.warning("plugin.path: %s is not a directory", directory)
            return
        if str(directory) not in sys.path:
            sys.path.append(str(directory))
        importlib.invalidate_caches()
        for module in pkgutil.walk_packages([str(directory)]):
            if module.name.split(".")[0] in ("setup", "conftest") or module.name.split(".")[-1].startswith("test_"):
                continue
            found = self._import(module.name)
            if found is not None:
                self._scan_module(found)

    def _import(self, name: str) -> ModuleType | None:
        try:
            return importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way
            self._failed(name, error)
            return None

    def _failed(self, name: str, error: Exception) -> None:
        self.failures[name] = f"{type(error).__name__}: {error}"
        logger.warning("the plug-ins of %s are left out: %s", name, self.failures[name])

    def _scan_module(self, module: ModuleType) -> None:
        for plugin in _plugins_of(module):
            self.add(plugin)


def full_name(plugin: type[Plugin]) -> str:
    return f"{plugin.__module__}.{plugin.__qualname__}"


def _present_name(name: str) -> str:
    """The present full name of a plug-in of ours that a stored configuration names by its former package."""
    root, _, rest = name.partition("ottla.connect.")
    if not root and rest.partition(".")[0] in _OWN_PACKAGES:
        return f"ottla.connect.plugins.{rest}"
    return name


def _plugins_of(module: ModuleType) -> Iterator[type[Plugin]]:
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, Plugin)
            and value.__module__ == module.__name__
            and not value.__name__.startswith("_")
            and not inspect.isabstract(value)
            and module.__name__.partition(".api")[0] != "ottla.connect"
        ):
            yield value


def _is_full_name(one: FoundPlugin, name: str) -> bool:
    return one.name == name


def _is_class_name(one: FoundPlugin, name: str) -> bool:
    return one.plugin.__qualname__ == name


def _is_alias(one: FoundPlugin, name: str) -> bool:
    return name in one.plugin.aliases


def _is_short_name(one: FoundPlugin, name: str) -> bool:
    ending = next(ending for _, word, ending in _KINDS if word == one.kind)
    for known in (one.plugin.__qualname__, *(alias.rpartition(".")[2] for alias in one.plugin.aliases)):
        if name in (known, known.removesuffix(ending)):
            return True
    return False
