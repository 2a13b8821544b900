"""Nothing unfinished, and nothing that belongs to one machine or one company's mirror."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.files import project_files, relative

# Spelled in two halves, so that this file does not break its own rules.
UNFINISHED = re.compile(r"\b(?:FIX" r"ME|TO" r"DO|XX" r"X)\b")
MACHINE = re.compile(
    r"(?<![\w.])/(?:wo" r"rk|ro" r"ot|ho" r"me/\w+|tm" r"p/\w)(?:/|\b)"
    r"|py" r"pi\.org|python" r"hosted|mav" r"en\.org|repo\.mav" r"en|artif" r"actory|jf" r"rog|-index-" r"url"
)  # fmt: skip
BINARY = {".xz", ".png", ".jar", ".svg", ".woff2"}
# The licence is a quotation, and files of hashes are no prose.
QUOTED = {"LICENSE"}


def test_nothing_is_left_for_later() -> None:
    assert not matching_lines(UNFINISHED)


def test_no_machine_shows_through() -> None:
    assert not matching_lines(MACHINE)


def matching_lines(pattern: re.Pattern[str]) -> list[str]:
    hits = []
    for path in project_files():
        if path.suffix in BINARY or path.name in QUOTED:
            continue
        hits += [
            f"{relative(path)}:{number}: {line.strip()[:100]}"
            for number, line in numbered(path)
            if pattern.search(line)
        ]
    return hits


def numbered(path: Path) -> list[tuple[int, str]]:
    return list(enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1))
