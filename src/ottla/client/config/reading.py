"""Reads configuration values, and explains what is wrong with a key or a value.

A `Key` has the field of the typed settings that a configuration key sets, and the reader of its value. A key without a
field has no effect here: its reader refuses every value that would have an effect.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.client.errors import ClientError
from ottla.serdes.plain import plain_serde

__all__ = [
    "ConfigurationError",
    "Key",
    "Reader",
    "apply_keys",
    "configure_plugins",
    "converter",
    "flag",
    "number",
    "objects",
    "only",
    "refused",
    "refuse_unknown",
    "text",
    "word",
]

Reader = Callable[[str, Any], Any]

INT_MAX = 2_147_483_647

# Names of librdkafka and older releases, with Kafka's name today.
_OTHER_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "bootstrap.server": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.kbytes": "buffer.memory",
    "compression.codec": "compression.type",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "request.required.acks": "acks",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "partitioner": "partitioner.class",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "broker.address.family": "client.dns.lookup",
}


class ConfigurationError(ClientError, ValueError):
    """A configuration key or value that cannot be used; the message names the key."""


class Key(NamedTuple):
    read: Reader
    # The field of the typed settings; None if the key has no effect.
    field: str | None = None


def refuse_unknown(names: Iterable[str], known: Mapping[str, Key], *, client: str) -> None:
    """Raises ConfigurationError for the first key that the client does not have, with a suggestion."""
    for name in names:
        if name not in known:
            raise ConfigurationError(_unknown_key(name, known, client))


def _unknown_key(name: str, known: Mapping[str, Key], client: str) -> str:
    # Imported here, because almost no program needs it.
    from difflib import get_close_matches

    other = _OTHER_NAMES.get(name)
    dotted = name.replace("_", ".").lower()
    close = [dotted] if dotted in known else get_close_matches(dotted, list(known), n=1, cutoff=0.7)
    suggestion = other if other in known else close[0] if close else None
    hint = f" Did you mean {suggestion}?" if suggestion else ""
    return f"{name!r} is not a configuration of a {client}.{hint}"


def apply_keys(config: Mapping[str, Any], keys: Mapping[str, Key]) -> dict[str, Any]:
    """The fields that these keys set, for the keys that are in the configuration."""
    fields: dict[str, Any] = {}
    for name, key in keys.items():
        if name in config:
            value = key.read(name, config[name])
            if key.field is not None:
                fields[key.field] = value
    return fields


def number(*, at_least: int = 0, at_most: int = INT_MAX) -> Reader:
    def read(name: str, value: Any) -> int:
        try:
            if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
                raise ValueError
            integer = int(value)
        except (ValueError, TypeError):
            raise ConfigurationError(f"{name}={value!r} is not a whole number.") from None
        if integer < at_least:
            raise ConfigurationError(f"{name}={integer} must be at least {at_least}.")
        if integer > at_most:
            raise ConfigurationError(f"{name}={integer} must be at most {at_most}.")
        return integer

    return read


def flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    state = {"true": True, "false": False}.get(str(value).strip().lower())
    if state is None:
        raise ConfigurationError(f"{name}={value!r} must be true or false.")
    return state


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name}={value!r} must be text.")
    return value.strip()


def word(*allowed: str) -> Reader:
    """One of these words, in any case."""

    def read(name: str, value: Any) -> str:
        choice = str(value).strip().lower()
        if choice not in allowed:
            raise ConfigurationError(f"{name}={value!r} must be one of {', '.join(allowed)}.")
        return choice

    return read


def only(*values: Any, why: str) -> Reader:
    """Accepts these values, which change nothing, and refuses all others with a sentence."""
    accepted = {_plain(value) for value in values}

    def read(name: str, value: Any) -> None:
        if _plain(value) not in accepted:
            raise ConfigurationError(f"{name}={value!r} is not supported: {why}")

    return read


def refused(why: str) -> Reader:
    """Refuses every value that is not empty."""
    return only("", None, why=why)


def objects(name: str, value: Any) -> tuple[Any, ...]:
    """A list of objects, or of Python classes by name, such as `package.module:Class`, made without arguments."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    plugins = value if isinstance(value, list | tuple) else [value]
    return tuple(_instantiate(name, plugin) for plugin in plugins)


def converter(kind: str) -> Reader:
    """A serializer or deserializer: an object, a Python class, one of Kafka's classes, or a name such as `string`."""

    def read(name: str, value: Any) -> Any:
        if isinstance(value, str):
            short = value.strip().rpartition(".")[2].lower().removesuffix(kind)
            plain = {"integer": "int", "bytearray": "bytes", "bytebuffer": "bytes"}.get(short, short)
            try:
                return getattr(plain_serde(plain), kind)
            except ValueError:
                pass
        (plugin,) = objects(name, value)
        method = kind.removesuffix("r")
        # A serde has both sides.
        plugin = getattr(plugin, kind, plugin)
        if not hasattr(plugin, method):
            raise ConfigurationError(f"{name}={value!r} is not a {kind}: it has no method {method}.")
        return plugin

    return read


def configure_plugins(plugins: Iterable[Any], config: Mapping[str, Any]) -> None:
    """Gives the configuration to every plug-in that has a method `configure`."""
    for plugin in plugins:
        configure = getattr(plugin, "configure", None)
        if callable(configure):
            configure(config)


def _instantiate(name: str, value: Any) -> Any:
    if isinstance(value, type):
        return value()
    if not isinstance(value, str):
        return value
    module, separator, member = value.rpartition(":" if ":" in value else ".")
    try:
        if not separator:
            raise ImportError
        return getattr(importlib.import_module(module), member)()
    except (ImportError, AttributeError):
        raise ConfigurationError(
            f"{name}: there is no Python class {value!r}; name one like package.module:Class, or give an object."
        ) from None


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(str(part) for part in value)
    return "" if value is None else str(value).strip().lower()
