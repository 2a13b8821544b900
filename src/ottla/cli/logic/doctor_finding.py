"""A finding of the doctor."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["HINT", "RISK", "WRONG", "Finding"]

WRONG = "wrong"
RISK = "risk"
HINT = "hint"


class Finding(NamedTuple):
    severity: str
    check: str
    what: str
    fix: str
