"""`docs/coverage.md` is true as far as a script can tell: a line that says done names tests that exist."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from tests.tidy.files import ROOT, parsed

COVERAGE = ROOT / "docs" / "coverage.md"
STATES = {"done", "part", "not yet"}
ROW = re.compile(r"^\| (?P<row>[AB]-[A-Z]+\d+\w*) \| (?P<what>[^|]+) \| (?P<state>[^|]+) \| (?P<tests>[^|]*) \|$")


class Line(NamedTuple):
    row: str
    state: str
    tests: list[str]


def test_rows_are_unique_and_well_formed() -> None:
    lines = read_lines()
    assert len(lines) > 350
    assert len({line.row for line in lines}) == len(lines)
    assert [line for line in lines if line.state not in STATES] == []


def test_what_is_done_names_tests_that_exist() -> None:
    wrong = []
    for line in read_lines():
        if line.state != "not yet" and not line.tests:
            wrong.append(f"{line.row} is {line.state} without a test")
        wrong += [f"{line.row}: {name} does not exist" for name in line.tests if not exists(name)]
    assert wrong == []


def read_lines() -> list[Line]:
    lines = []
    for text in COVERAGE.read_text().splitlines():
        if re.match(r"\| [AB]-", text):
            match = ROW.match(text)
            assert match is not None, f"not a row: {text}"
            lines.append(Line(match["row"], match["state"].strip(), re.findall(r"`([^`]+)`", match["tests"])))
    return lines


def exists(name: str) -> bool:
    """A test is a path under tests/, with `::function` or `::Class::function` where one function shows it."""
    path, _, function = name.partition("::")
    file = ROOT / "tests" / path
    if not file.exists():
        return False
    if not function:
        return True
    functions = {
        node.name for node in ast.walk(parsed(file)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return function.rpartition("::")[2] in functions
