"""Kafka's `sasl.jaas.config`: one or more login modules with options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Only the syntax is Java's. The module's name selects the mechanism of the options; no class is loaded by that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["JaasEntry", "JaasError", "parse_jaas"]

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<mark>[=;])|(?P<word>[^\s"=;]+))""", re.DOTALL)


class JaasError(ValueError):
    """The text is no login configuration. The message does not repeat it, because it contains secrets."""


class JaasEntry(NamedTuple):
    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        """Without the options, which contain secrets."""
        return f"JaasEntry(module={self.module!r})"


def parse_jaas(text: str) -> list[JaasEntry]:
    tokens = list(_tokens(text))
    entries: list[JaasEntry] = []
    at = 0
    while at < len(tokens):
        entry, at = _entry(tokens, at)
        entries.append(entry)
    if not entries:
        raise JaasError("The login configuration is empty.")
    return entries


def _entry(tokens: list[str], at: int) -> tuple[JaasEntry, int]:
    module, flag = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
    if flag.lower() not in _FLAGS:
        raise JaasError(f"The login module {module} must be followed by one of {', '.join(sorted(_FLAGS))}.")
    at += 2
    options: dict[str, str] = {}
    while at < len(tokens) and tokens[at] != ";":
        if tokens[at + 1 : at + 2] != ["="] or at + 2 >= len(tokens) or tokens[at + 2] in ("=", ";"):
            raise JaasError(f"The options of the login module {module} must look like name=value.")
        options[tokens[at]] = tokens[at + 2]
        at += 3
    if at >= len(tokens):
        raise JaasError(f"The login module {module} and its options must end with a semicolon.")
    return JaasEntry(module, options), at + 1


def _tokens(text: str) -> Iterator[str]:
    at, text = 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise JaasError("The login configuration has a quotation mark that is not closed.")
        quoted = match["string"]
        if quoted is None:
            yield match["mark"] or match["word"]
        else:
            yield re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL)
        at = match.end()
