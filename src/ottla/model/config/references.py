"""References in properties files: `${file:/run/secrets/node.properties:password}` and `${env:NAME}`.

The syntax is that of Apache Kafka's config providers: a provider, an optional path, a key. References are resolved in
local files only. Text that a client sends is never resolved: it could read any file of the node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["DEPTH_MAX", "REFERENCE", "Lookup", "ReferenceFailed", "Resolved", "resolve_references"]

REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
# Values may contain references, up to this depth.
DEPTH_MAX = 4

# Returns the value for a path and a key. Raises ReferenceFailed with the reason.
Lookup = Callable[[str, str], str]


class ReferenceFailed(ValueError):
    """A reference names something that does not exist or cannot be read. The message has no values."""


class Resolved(NamedTuple):
    properties: dict[str, str]
    # The keys whose value comes from a reference. These values are not shown.
    hidden: frozenset[str]
    # The values that have replaced references.
    values: tuple[str, ...]


def resolve_references(properties: Mapping[str, str], providers: Mapping[str, Lookup]) -> Resolved:
    """The properties with references replaced by their values. A reference to an unknown provider is ordinary text."""
    resolved: dict[str, str] = {}
    hidden: set[str] = set()
    values: list[str] = []
    for key, text in properties.items():
        whole, secrets = _resolved(key, text, providers) if "${" in text else (text, [])
        resolved[key] = whole
        if secrets:
            hidden.add(key)
            values += secrets
    return Resolved(resolved, frozenset(hidden), tuple(values))


def _resolved(key: str, text: str, providers: Mapping[str, Lookup]) -> tuple[str, list[str]]:
    values: list[str] = []
    for _ in range(DEPTH_MAX):
        references = [match for match in REFERENCE.finditer(text) if match.group(1) in providers]
        if not references:
            return text, values
        parts, position = [], 0
        for match in references:
            try:
                value = providers[match.group(1)](match.group(2) or "", match.group(3))
            except ReferenceFailed as error:
                raise ReferenceFailed(f"{key} refers to {match.group()}, but {error}") from None
            values.append(value)
            parts += [text[position : match.start()], value]
            position = match.end()
        text = "".join([*parts, text[position:]])
    raise ReferenceFailed(f"{key}: references are nested more than {DEPTH_MAX} deep.")
