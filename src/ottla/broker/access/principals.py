"""The principal builder that `principal.builder.class` selects.

With the name of Apache Kafka's own builder, a connection has the principal of its login, or
`User:ANONYMOUS`. Any other value is the dotted name of a Python callable, which gets the connection and that principal
and returns the one to use, for example to name principals by their listeners.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.model.config.keys import ConfigError

if TYPE_CHECKING:
    from ottla.broker.context import PrincipalBuilder

__all__ = ["load_principal_builder"]

_KEY = "principal.builder.class"


def load_principal_builder(name: str) -> PrincipalBuilder:
    """Raises ConfigError if the name cannot be imported."""
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
