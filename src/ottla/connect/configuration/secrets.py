"""Secrets by reference: `${file:/run/secrets/db.properties:password}`, `${env:TOKEN}`, `${dir:/run/secrets:token}`.

Configurations are stored and shown with references. Only tasks and validation see the values (`resolve`). Their traces
and log lines go through a `Mask`, which replaces the values with stars.

The worker's own file may use the providers `file`, `env` and `dir` (or `directory`). Configurations of connectors come
from other machines, and a reference reads files of the worker's machine: connectors may use only the providers that
`config.providers` of the worker names, with their limits: `config.providers=file`,
`config.providers.file.param.allowed.paths=/run/secrets`. A reference to an unknown provider stays as it is, as in
Kafka: it may be ordinary text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigProvider, ConnectError
from ottla.connect.api.config_definitions import names_in
from ottla.connect.plugins.providers.local import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider
from ottla.model.config.references import Lookup, ReferenceFailed, resolve_references

if TYPE_CHECKING:
    from ottla.connect.plugins import Plugins

__all__ = ["HIDDEN", "Mask", "MaskFilter", "hide_in_logs", "make_providers", "resolve", "resolve_own"]

HIDDEN = "********"
# Shorter values are common in ordinary text and are not masked.
MASKED_LENGTH_MIN = 4
MASKED_MAX = 10_000


class Mask:
    """Hides the values of secrets in text."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, values: Iterable[str]) -> None:
        for value in values:
            if len(value) >= MASKED_LENGTH_MIN and len(self._values) < MASKED_MAX:
                self._values.add(value)

    def hide(self, text: str) -> str:
        """The text without the values. Longer values go first, because a value may be part of another."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return text


class MaskFilter(logging.Filter):
    """Hides the values of a mask in the records of a log handler."""

    def __init__(self, mask: Mask) -> None:
        super().__init__()
        self._mask = mask

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        hidden = self._mask.hide(message)
        if hidden != message:
            record.msg, record.args = hidden, ()
        if record.exc_info:
            # Another handler may have formatted the trace already and cached it in the record.
            record.exc_text = self._mask.hide(record.exc_text or logging.Formatter().formatException(record.exc_info))
        return True


def hide_in_logs(mask: Mask) -> Callable[[], None]:
    """Hides the values of a mask in all logs of this process, until the returned function is called."""
    added = [(handler, MaskFilter(mask)) for handler in logging.getLogger().handlers]
    for handler, mask_filter in added:
        handler.addFilter(mask_filter)

    def end() -> None:
        for handler, mask_filter in added:
            handler.removeFilter(mask_filter)

    return end


def built_in_providers() -> dict[str, ConfigProvider]:
    """The providers that need no class, by the names that references use."""
    return {
        "file": FileConfigProvider(),
        "env": EnvVarConfigProvider(),
        "dir": DirectoryConfigProvider(),
        "directory": DirectoryConfigProvider(),
    }


def make_providers(config: Mapping[str, str], plugins: Plugins | None = None) -> dict[str, ConfigProvider]:
    """The providers that a worker offers to connectors: those that its `config.providers` names."""
    built_in = built_in_providers()
    providers: dict[str, ConfigProvider] = {}
    for name in names_in(config.get("config.providers")):
        prefix = f"config.providers.{name}."
        wanted = config.get(prefix + "class")
        provider = built_in.get(name)
        if wanted is not None:
            if plugins is None:
                raise ConnectError(f"{prefix}class is not supported here")
            provider = plugins.make(wanted, ConfigProvider)  # type: ignore[type-abstract]
        if provider is None:
            raise ConnectError(f"{prefix}class is missing: there is no provider {name}")
        parameters = prefix + "param."
        given = {key.removeprefix(parameters): text for key, text in config.items() if key.startswith(parameters)}
        provider.configure(given)
        providers[name] = provider
    return providers


def resolve(
    config: Mapping[str, str], providers: Mapping[str, ConfigProvider], mask: Mask | None = None
) -> dict[str, str]:
    """A connector's configuration with references replaced by their values."""
    lookups = {name: _refuse_to_connectors(name) for name in built_in_providers()}
    lookups |= {name: _lookup(provider) for name, provider in providers.items()}
    return _resolved(config, lookups, mask)


def resolve_own(config: Mapping[str, str], mask: Mask | None = None) -> dict[str, str]:
    """The worker's own file with references replaced by their values. Raises ConnectError."""
    return _resolved(config, {name: _lookup(provider) for name, provider in built_in_providers().items()}, mask)


def _resolved(config: Mapping[str, str], lookups: Mapping[str, Lookup], mask: Mask | None) -> dict[str, str]:
    try:
        resolved = resolve_references(config, lookups)
    except ReferenceFailed as error:
        raise ConnectError(str(error)) from None
    if mask is not None:
        for value in resolved.values:
            mask.add([value, *value.splitlines()])
    return resolved.properties


def _lookup(provider: ConfigProvider) -> Lookup:
    def look_up(path: str, key: str) -> str:
        try:
            values = provider.get(path, [key])
        except ConnectError as error:
            raise ReferenceFailed(str(error)) from None
        if key not in values:
            raise ReferenceFailed(f"{key} does not exist there.")
        return values[key]

    return look_up


def _refuse_to_connectors(name: str) -> Lookup:
    def refuse(path: str, key: str) -> str:  # noqa: ARG001
        raise ReferenceFailed(f"this worker does not offer the provider to connectors: set config.providers={name}.")

    return refuse
