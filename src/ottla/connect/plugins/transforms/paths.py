"""Paths to nested fields, `a.b`, with names in backticks where they have dots themselves (KIP-821)."""

from __future__ import annotations

from ottla.connect.api import ConfigError

__all__ = ["parse_path"]


def parse_path(text: str) -> list[str]:
    """The names of a path. A backslash escapes a backtick of a quoted name that would otherwise close the name."""
    steps: list[str] = []
    position = 0
    while position < len(text):
        if text[position] != "`":
            end = text.find(".", position)
            steps.append(text[position:] if end < 0 else text[position:end])
            position = len(text) if end < 0 else end + 1
            continue
        name, position = _quoted(text, position + 1)
        steps.append(name)
    if text.endswith("."):
        steps.append("")
    return steps


def _quoted(text: str, start: int) -> tuple[str, int]:
    """A name in backticks, and where the next name begins. Only a backtick before a dot or the end closes a name."""
    name = ""
    position = start
    while True:
        tick = text.find("`", position)
        escaped = tick > 0 and text[tick - 1] == "\\"
        at_end = tick == len(text) - 1
        if tick < 0 or (at_end and escaped):
            raise ConfigError(f"a backtick is not closed in the path {text}", name="field")
        if at_end:
            return name + text[start:tick], len(text)
        if text[tick + 1] != ".":
            position = tick + 1
        elif escaped:
            name += text[start : tick - 1] + "`"
            start = position = tick + 1
        else:
            return name + text[start:tick], tick + 2
