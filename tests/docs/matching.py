"""Compares output with what a page shows: times, durations and the width of columns may differ."""

from __future__ import annotations

import re

__all__ = ["matches"]

VARIABLE = (
    # Dates and times in the forms that commands print.
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d([.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|seconds?)\b"), "<duration>"),
    # The width of a column depends on the longest value in it.
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"[─━=-]{2,}"), "──"),
)


def matches(expected: str, output: str) -> bool:
    """`...` stands for any text within a line, and for any number of lines on a line of its own."""
    pattern = "".join(line_pattern(line) for line in normal_lines(expected))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in normal_lines(output))) is not None


def normal_lines(text: str) -> list[str]:
    for pattern, replacement in VARIABLE:
        text = pattern.sub(replacement, text)
    return [line.strip() for line in text.strip("\n").splitlines()]


def line_pattern(line: str) -> str:
    if line == "...":
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in line.split("...")) + r"\n"
