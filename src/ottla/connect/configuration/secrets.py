"""Secrets by reference: `${file:/run/secrets/db.properties:password}`, `${env:TOKEN}`, `${dir:/run/secrets:token}`.

Configurations are stored and shown with references. Only tasks and validation see the values (`resolve`). Their traces
and log lines go through a `Mask`, which replaces the values with stars.

Every worker has the providers `file`, `env` and `dir` (or `directory`). `config.providers` adds more, or the same with
settings: `config.providers.file.class`, `config.providers.file.param.allowed.paths`. A reference to an unknown provider
stays as it is, as in Kafka: it may be ordinary text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigProvider, ConnectError
from ottla.connect.api.config_definitions import names_in
from ottla.connect.plugins.providers.local import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider

if TYPE_CHECKING:
    from ottla.connect.plugins import Plugins

__all__ = ["HIDDEN", "Mask", "MaskFilter", "hide_in_logs", "make_providers", "resolve"]

HIDDEN = "********"
# Kafka's syntax: a provider, an optional path, a key without brackets.
REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
# Values may contain references, up to this depth.
DEPTH_MAX = 4
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
    for handler, one in added:
        handler.addFilter(one)

    def end() -> None:
        for handler, one in added:
            handler.removeFilter(one)

    return end


def make_providers(config: Mapping[str, str], plugins: Plugins | None = None) -> dict[str, ConfigProvider]:
    """The providers of a worker, by the names that references use."""
    providers: dict[str, ConfigProvider] = {
        "file": FileConfigProvider(),
        "env": EnvVarConfigProvider(),
        "dir": DirectoryConfigProvider(),
        "directory": DirectoryConfigProvider(),
    }
    for name in names_in(config.get("config.providers")):
        prefix = f"config.providers.{name}."
        wanted = config.get(prefix + "class")
        provider = providers.get(name)
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
    """The configuration with references replaced by their values."""
    return {key: _resolved(key, text, providers, mask) for key, text in config.items()}


def _resolved(key: str, text: str, providers: Mapping[str, ConfigProvider], mask: Mask | None) -> str:
    for _ in range(DEPTH_MAX):
        references = [match for match in REFERENCE.finditer(text) if match.group(1) in providers]
        if not references:
            return text
        parts, position = [], 0
        for match in references:
            value = _looked_up(key, match, providers)
            if mask is not None:
                mask.add([value, *value.splitlines()])
            parts += [text[position : match.start()], value]
            position = match.end()
        text = "".join([*parts, text[position:]])
    raise ConnectError(f"{key}: references are nested more than {DEPTH_MAX} deep")


def _looked_up(key: str, match: re.Match[str], providers: Mapping[str, ConfigProvider]) -> str:
    name, path, wanted = match.group(1), match.group(3) or "", match.group(4)
    found = providers[name].get(path, [wanted])
    if wanted not in found:
        place = f"{name}:{path}" if path else name
        raise ConnectError(f"{key} refers to {wanted}, which does not exist in {place}")
    return found[wanted]
