"""Limits of time and memory for the expression of a rule: any author of a schema can write an endless one."""

from __future__ import annotations

import time
from typing import Any

from ottla.serdes.rules.contracts import RuleFailed

__all__ = ["RuleBudget", "TimeLimit", "linear_pattern"]

# Far more than a reasonable expression takes for one record.
_SECONDS_MAX = 10.0
# The texts, lists and maps that an expression makes for one record: several times the largest usual record.
_SIZE_MAX = 64 * 1024 * 1024


class TimeLimit:
    """The deadline of a rule for one record."""

    __slots__ = ("_ends_at",)

    def __init__(self) -> None:
        self._ends_at = time.monotonic() + _SECONDS_MAX

    def check(self) -> None:
        """Raises RuleFailed when the time is over."""
        if time.monotonic() > self._ends_at:
            raise RuleFailed(f"the expression takes longer than {_SECONDS_MAX:g} s")


class RuleBudget(TimeLimit):
    """The time and the memory that a rule has for one record: a `Budget` of CEL."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        super().__init__()
        self._left = _SIZE_MAX

    on_step = TimeLimit.check

    def on_made(self, size: int) -> None:
        """Raises RuleFailed when the values that the expression made are too large in all."""
        self._left -= size
        if self._left < 0:
            raise RuleFailed(f"the expression makes texts and lists of more than {_SIZE_MAX} bytes for one record")


def linear_pattern(pattern: str, flags: Any) -> Any:
    """A regular expression with linear time in the length of the text. A search of Python's `re` cannot be interrupted.

    For JSONata; the library of CEL uses RE2, too. Raises RuleFailed.
    """
    try:
        import re2
    except ImportError:
        raise RuleFailed("regular expressions need google-re2: pip install 'ottla[rules]'") from None
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not flags.case_insensitive
    try:
        return re2.compile(f"(?m){pattern}" if flags.multiline else pattern, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise RuleFailed(f"/{pattern}/ is not a regular expression of RE2: {text}") from None
