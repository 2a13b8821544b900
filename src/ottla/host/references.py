"""The providers of references in a node's own properties file: files and environment variables of this machine.

`${file:PATH:KEY}` is a line of another properties file, `${dir:PATH:FILE}` the content of a file, as Kubernetes mounts
secrets, and `${env:NAME}` a variable of the environment. `config.providers` is optional; Kafka's own lines are
accepted, so that a server.properties with them is read unchanged:

    config.providers=secrets
    config.providers.secrets.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.secrets.param.allowed.paths=/run/secrets
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial

from ottla.model.config.broker_config import BrokerConfig
from ottla.model.config.keys import ConfigError
from ottla.model.config.parse import decode_properties, parse_properties
from ottla.model.config.references import Lookup, ReferenceFailed, Resolved, resolve_references

__all__ = ["own_config", "resolve_own_file"]

# A secret is a line or a certificate; a larger file is a mistake.
FILE_BYTES_MAX = 1024 * 1024

_PROVIDERS_KEY = "config.providers"
_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."
_JAVA_CLASSES = {
    f"{_JAVA_PACKAGE}FileConfigProvider": "file",
    f"{_JAVA_PACKAGE}EnvVarConfigProvider": "env",
    f"{_JAVA_PACKAGE}DirectoryConfigProvider": "dir",
}


def own_config(properties: Mapping[str, str]) -> BrokerConfig:
    """The configuration of a node from its own properties file. Raises ConfigError; its message has no secrets."""
    try:
        resolved = resolve_own_file(properties)
    except ReferenceFailed as error:
        raise ConfigError(str(error)) from None
    try:
        return BrokerConfig(resolved.properties, hidden=resolved.hidden)
    except ConfigError as error:
        message = error.message
        # Longer values first, because a value may be part of another.
        for value in sorted(filter(None, resolved.values), key=len, reverse=True):
            message = message.replace(value, "[hidden]")
        raise ConfigError(message, key=error.key) from None


def resolve_own_file(properties: Mapping[str, str]) -> Resolved:
    """Resolves the references of a file that belongs to this process. Raises ReferenceFailed."""
    own_properties = {
        key: text
        for key, text in properties.items()
        if key != _PROVIDERS_KEY and not key.startswith(f"{_PROVIDERS_KEY}.")
    }
    return resolve_references(own_properties, _providers(properties))


def _providers(properties: Mapping[str, str]) -> dict[str, Lookup]:
    providers: dict[str, Lookup] = {"file": _from_file, "env": _from_environment, "dir": _from_directory}
    for name in filter(None, (part.strip() for part in properties.get(_PROVIDERS_KEY, "").split(","))):
        prefix = f"{_PROVIDERS_KEY}.{name}."
        wanted = properties.get(f"{prefix}class")
        kind = name if wanted is None else _JAVA_CLASSES.get(wanted.strip())
        if kind not in ("file", "env", "dir"):
            class_names = ", ".join(class_name.removeprefix(_JAVA_PACKAGE) for class_name in _JAVA_CLASSES)
            raise ReferenceFailed(
                f"{prefix}class is {wanted or 'missing'}: there are {class_names} of {_JAVA_PACKAGE[:-1]}."
            )
        providers[name] = _limited(kind, properties, prefix)
    return providers


def _limited(kind: str, properties: Mapping[str, str], prefix: str) -> Lookup:
    """A provider with its parameters in Kafka: `allowed.paths`, or `allowlist.pattern` for the environment."""
    if kind == "env":
        return partial(_from_environment, allowed=re.compile(properties.get(f"{prefix}param.allowlist.pattern", ".*")))
    paths = properties.get(f"{prefix}param.allowed.paths", "")
    allowed = tuple(os.path.realpath(path.strip()) for path in paths.split(",") if path.strip())
    return partial(_from_file if kind == "file" else _from_directory, allowed=allowed)


def _from_file(path: str, key: str, *, allowed: tuple[str, ...] = ()) -> str:
    properties = parse_properties(_read(path, allowed))
    if key not in properties:
        raise ReferenceFailed(f"the file has no line for {key}.")
    return properties[key]


def _from_directory(path: str, key: str, *, allowed: tuple[str, ...] = ()) -> str:
    if "/" in key or key in ("", ".", ".."):
        raise ReferenceFailed("a reference to a directory is ${dir:PATH:FILE}.")
    return _read(os.path.join(path, key), allowed)


def _from_environment(path: str, key: str, *, allowed: re.Pattern[str] | None = None) -> str:
    if path:
        raise ReferenceFailed("the environment has no paths: write ${env:NAME}.")
    if key not in os.environ or (allowed is not None and not allowed.fullmatch(key)):
        raise ReferenceFailed("this variable is not set in the environment of the process.")
    return os.environ[key]


def _read(path: str, allowed: tuple[str, ...]) -> str:
    real = os.path.realpath(path)
    if allowed and not any(real == root or real.startswith(root.rstrip("/") + "/") for root in allowed):
        raise ReferenceFailed("the file is not in allowed.paths.")
    try:
        with open(real, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ReferenceFailed(f"the file cannot be read: {error.strerror}.") from None
    if len(content) > FILE_BYTES_MAX:
        raise ReferenceFailed(f"the file is larger than {FILE_BYTES_MAX} bytes.")
    return decode_properties(content)
