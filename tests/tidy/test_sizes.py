"""Modules of at most 500 lines, functions of at most 60; what exceeds that is listed and may only shrink."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.tidy.files import GENERATED, ROOT, parsed, project_files, relative

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
EXCEPTIONS = Path(__file__).with_name("exceptions.txt")


def test_nothing_is_larger_than_the_rule_or_its_exception() -> None:
    allowed = read_exceptions()
    grown = {name: size for name, size in too_large().items() if size > allowed.get(name, 0)}
    assert not grown, f"split these, or make the case for a line in {relative(EXCEPTIONS)}: {grown}"


def test_exceptions_only_shrink() -> None:
    actual = too_large()
    stale = {name: size for name, size in read_exceptions().items() if actual.get(name, 0) < size}
    assert not stale, f"these became smaller; lower or remove their line in {relative(EXCEPTIONS)}: {stale}"


def too_large() -> dict[str, int]:
    """Name -> lines, for modules (`path`) and functions (`path:function`) beyond the limits."""
    sizes: dict[str, int] = {}
    for path in project_files():
        if path.suffix != ".py" or path.is_relative_to(GENERATED):
            continue
        lines = len(path.read_text().splitlines())
        if lines > MODULE_LINES_MAX:
            sizes[relative(path)] = lines
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    sizes[f"{relative(path)}:{node.name}"] = length
    return sizes


def read_exceptions() -> dict[str, int]:
    lines = [line.split() for line in EXCEPTIONS.read_text().splitlines() if line and not line.startswith("#")]
    for name, _ in lines:
        assert (ROOT / name.partition(":")[0]).is_file(), f"{name} is in {relative(EXCEPTIONS)} but not in the project"
    return {name: int(size) for name, size in lines}
