"""`ssl.principal.mapping.rules` (KIP-371): rules that turn the name of a certificate into a principal's name.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole name decides. DEFAULT keeps the name. Without a matching rule the
connection is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ottla.tls.errors import TlsError

__all__ = ["NoMatchingRule", "PrincipalRules"]

_KEY = "ssl.principal.mapping.rules"
_RULE = re.compile(
    r"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
)
_NAMED_GROUP = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")


class NoMatchingRule(Exception):
    """No rule matches the name of a certificate."""


class _Rule(NamedTuple):
    # None for DEFAULT.
    pattern: re.Pattern[str] | None
    replacement: str
    change_case: Callable[[str], str]


class PrincipalRules:
    """Raises TlsError if the rules cannot be read."""

    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules = _parse(text)

    def name_of(self, distinguished_name: str) -> str:
        """Raises NoMatchingRule."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name):
                return rule.change_case(rule.pattern.sub(rule.replacement, distinguished_name))
        raise NoMatchingRule(f"no rule of {_KEY} matches {distinguished_name}")


def _parse(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    at, stripped = 0, text.strip()
    while at < len(stripped):
        match = _RULE.match(stripped, at)
        if match is None:
            raise TlsError(
                f"{_KEY} has no rule at {stripped[at : at + 40]!r}: a rule looks like RULE:pattern/text/L.", key=_KEY
            )
        rules.append(_rule(match))
        separator = re.compile(r"\s*(?:[,\n]\s*|$)").match(stripped, match.end())
        if separator is None:
            raise TlsError(
                f"{_KEY} must separate its rules with commas; see {stripped[match.start() :][:60]!r}.", key=_KEY
            )
        at = separator.end()
    return rules or [_Rule(None, "", str)]


def _rule(match: re.Match[str]) -> _Rule:
    if match["default"]:
        return _Rule(None, "", str)
    try:
        pattern = re.compile(_NAMED_GROUP.sub(r"(?P<\1>", match["pattern"]))
        replacement = _python_replacement(match["replacement"], pattern.groups)
        pattern.sub(replacement, "")
    except re.error as error:
        raise TlsError(f"{_KEY} has a pattern that cannot be used: {error}.", key=_KEY) from None
    return _Rule(pattern, replacement, {"L": str.lower, "U": str.upper}.get(match["case"], str))


def _python_replacement(text: str, groups: int) -> str:
    """Java writes $1 for the first group; a number without a group is text."""

    def group(match: re.Match[str]) -> str:
        if match["escaped"]:
            return re.escape(match["escaped"]) if match["escaped"] == "\\" else match["escaped"]
        number = int(match["number"])
        return rf"\g<{number}>" if number <= groups else match[0]

    return re.sub(r"\\(?P<escaped>.)|\$(?P<number>\d)", group, text)
