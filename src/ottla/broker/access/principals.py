"""The principal builder that `principal.builder.class` selects.

With the name of Apache Kafka's own builder, a connection has the principal of its login, or
`User:ANONYMOUS`. Any other value is the dotted name of a Python callable, which gets the connection and that principal
and returns the one to use, for example to name principals by their listeners. `listener.name.<name>.` before the key
selects the builder of a single listener.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.model.config.keys import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.broker.context import ConnectionContext, Principal, PrincipalBuilder

__all__ = ["load_principal_builders"]

_KEY = "principal.builder.class"


def load_principal_builders(names: Mapping[str, str], *, default: str) -> PrincipalBuilder:
    """One builder from the names of builders by listener, "" for all other listeners.

    Raises ConfigError if a name cannot be imported.
    """
    builders = {listener: None if name == default else _load(name) for listener, name in names.items()}
    of_node = builders.pop("")

    def build(connection: ConnectionContext, principal: Principal) -> Principal:
        builder = builders.get(connection.listener.name, of_node)
        return principal if builder is None else builder(connection, principal)

    return of_node if of_node is not None and not builders else build


def _load(name: str) -> PrincipalBuilder:
    module, _, attribute = name.rpartition(".")
    try:
        builder: PrincipalBuilder | None = getattr(import_module(module), attribute) if module else None
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{_KEY} is {name}, which cannot be imported ({error}). It must be the dotted name of a Python callable "
            "that takes a connection and its principal; plug-ins of Apache Kafka cannot be loaded.",
            key=_KEY,
        ) from error
    if builder is None or not callable(builder):
        raise ConfigError(f"{_KEY} is {name}, which is not callable: name a Python function or class.", key=_KEY)
    return builder
