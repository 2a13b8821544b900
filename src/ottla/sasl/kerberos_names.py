"""Short names for Kerberos principals (`sasl.kerberos.principal.to.local.rules`).

    DEFAULT                                          alice@REALM and kafka/host@REALM of the own realm: alice, kafka
    RULE:[2:$1](kafka.*)s/^kafka/broker/L            the components, a filter, a substitution, and the case of letters

The first rule that matches a principal gives its short name. A principal without a matching rule is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["KerberosNames", "RuleError"]

_PRINCIPAL = re.compile(r"(?P<service>[^/@]+)(?:/(?P<host>[^/@]+))?@(?P<realm>[^/@]+)")
_RULE = re.compile(
    r"DEFAULT|RULE:\[(?P<parts>\d*):(?P<format>[^\]]*)\](?:\((?P<filter>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>L|U)?"
)
_PARAMETER = re.compile(r"\$(\d)")
# In a replacement Java writes $1 for a group, and Python \1.
_GROUP = re.compile(r"\\(.)|\$(\d)")
NAME_CHARACTERS_MAX = 1_000


class RuleError(ValueError):
    """The text is no rule."""


class _Rule(NamedTuple):
    parts: int
    format: str
    filter: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    is_repeated: bool
    case: str | None


class KerberosNames:
    """`realm` is the realm of the server, to which DEFAULT applies."""

    def __init__(self, rules: Sequence[str], realm: str) -> None:
        # A rule with a comma has been cut into pieces by the list of the configuration.
        self._rules = [_parsed(text) for text in _joined(rules)]
        self._realm = realm

    def short(self, principal: str) -> str | None:
        """The short name; None if no rule matches."""
        match = _PRINCIPAL.fullmatch(principal)
        if match is None or len(principal) > NAME_CHARACTERS_MAX:
            return None
        parts = [match["realm"], match["service"], *([] if match["host"] is None else [match["host"]])]
        for rule in self._rules:
            name = parts[1] if rule is None and match["realm"] == self._realm else None
            if rule is not None:
                name = _applied(rule, parts)
            if name is not None:
                return name if name and not re.search(r"[/@]", name) else None
        return None


def _applied(rule: _Rule, parts: list[str]) -> str | None:
    """The short name by this rule; None if the rule does not match. `parts` begins with the realm."""
    if len(parts) - 1 != rule.parts:
        return None
    base = _PARAMETER.sub(lambda match: parts[int(match[1])] if int(match[1]) < len(parts) else "", rule.format)
    if rule.filter is not None and rule.filter.fullmatch(base) is None:
        return None
    name = base
    if rule.pattern is not None:
        name = rule.pattern.sub(rule.replacement, base, count=0 if rule.is_repeated else 1)
    return {"L": name.lower, "U": name.upper}.get(rule.case or "", lambda: name)()


def _joined(rules: Sequence[str]) -> list[str]:
    joined: list[str] = []
    for text in rules:
        if joined and not text.startswith(("RULE:", "DEFAULT")):
            joined[-1] += f",{text}"
        else:
            joined.append(text)
    return joined


def _parsed(text: str) -> _Rule | None:
    """The rule; None for DEFAULT."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise RuleError(f"{text!r} is no rule like RULE:[2:$1](kafka.*)s/^kafka/broker/ and not DEFAULT")
    if match["format"] is None:
        return None
    try:
        rule = _Rule(
            parts=int(match["parts"] or 0),
            format=match["format"],
            filter=None if match["filter"] is None else re.compile(match["filter"]),
            pattern=None if match["pattern"] is None else re.compile(match["pattern"]),
            replacement=_GROUP.sub(_python_group, match["replacement"] or ""),
            is_repeated=match["all"] is not None,
            case=match["case"],
        )
        if rule.pattern is not None:
            # A reference to a missing group fails here, and not at the first login.
            rule.pattern.sub(rule.replacement, "")
        return rule
    except re.error as error:
        raise RuleError(f"{text!r} has a regular expression that cannot be read ({error})") from None


def _python_group(match: re.Match[str]) -> str:
    if match[2] is not None:
        return f"\\g<{match[2]}>"
    return "\\\\" if match[1] == "\\" else match[1]
