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
        found = _RULE.match(stripped, at)
        if found is None:
            raise TlsError(
                f"{_KEY} has no rule at {stripped[at : at + 40]!r}: a rule looks like RULE:pattern/text/L.", key=_KEY
            )
        rules.append(_rule(found))
        rest = re.compile(r"\s*(?:[,\n]\s*|$)").match(stripped, found.end())
        if rest is None:
            raise TlsError(
                f"{_KEY} must separate its rules with commas; see {stripped[found.start() :][:60]!r}.", key=_KEY
            )
        at = rest.end()
    return rules or [_Rule(None, "", str)]


def _rule(found: re.Match[str]) -> _Rule:
    if found["default"]:
        return _Rule(None, "", str)
    try:
        pattern = re.compile(_NAMED_GROUP.sub(r"(?P<\1>", found["pattern"]))
        replacement = _python_replacement(found["replacement"], pattern.groups)
        pattern.sub(replacement, "")
    except re.error as error:
        raise TlsError(f"{_KEY} has a pattern that cannot be used: {error}.", key=_KEY) from None
    return _Rule(pattern, replacement, {"L": str.lower, "U": str.upper}.get(found["case"], str))


def _python_replacement(text: str, groups: int) -> str:
    """Java writes $1 for the first group; a number without a group is text."""

    def group(found: re.Match[str]) -> str:
        if found["escaped"]:
            return re.escape(found["escaped"]) if found["escaped"] == "\\" else found["escaped"]
        number = int(found["number"])
        return rf"\g<{number}>" if number <= groups else found[0]

    return re.sub(r"\\(?P<escaped>.)|\$(?P<number>\d)", group, text)
