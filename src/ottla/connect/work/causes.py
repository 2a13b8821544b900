"""The cause of a failure in one line, for states, logs and the REST interface.

An exception of Spark carries the traceback of its Python worker, or the stack of the JVM, as text. The line with
the cause is somewhere in between.
"""

from __future__ import annotations

import re
import traceback

__all__ = ["cause_of", "trace_of"]

_LENGTH_MAX = 500
_TRACEBACK = "Traceback (most recent call last):"
# The parts after the message in an exception of Spark: stacks, and the context of the query.
_REST = re.compile(r"\n\s*(?:at [\w.$]+\(|JVM stacktrace:|Driver stacktrace:|==|Caused by: )")
_STAGE_FAILURE = re.compile(r"^Job aborted due to stage failure: .*?most recent failure: .*?\(TID \d+\) \([^)]*\): ")
_QUALIFIED = re.compile(r"^(?:[\w$]+\.)+([A-Za-z_$]\w*): ")
_CLASS = re.compile(r"^((?:\w+: )?)\[[A-Z_.0-9]+\] ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}\s*$")


def cause_of(error: BaseException) -> str:
    """The kind of the failure and its message, without a stack."""
    text = str(error)
    kind = f"{type(error).__name__}: "
    if _TRACEBACK in text:
        raised = _last_raised(text)
        if raised is not None:
            text, kind = raised, ""
    text = _STAGE_FAILURE.sub("", _REST.split(text, maxsplit=1)[0])
    text, qualified = _QUALIFIED.subn(r"\1: ", text)
    if qualified:
        kind = ""
    text = _SQLSTATE.sub("", _CLASS.sub(r"\1", text))
    return (kind + " ".join(text.split()))[:_LENGTH_MAX]


def trace_of(error: BaseException) -> str:
    """The cause in the first line, then the traceback."""
    return f"{cause_of(error)}\n{''.join(traceback.format_exception(error))}"


def _last_raised(text: str) -> str | None:
    """The exception at the end of the last Python traceback in a text."""
    lines = text[text.rindex(_TRACEBACK) + len(_TRACEBACK) :].splitlines()
    start = next((number for number, line in enumerate(lines) if line[:1].strip()), None)
    if start is None:
        return None
    end = next((number for number in range(start, len(lines)) if not lines[number].strip()), len(lines))
    return "\n".join(lines[start:end])
