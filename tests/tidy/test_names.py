"""Names of variables, parameters, attributes and functions are nouns that name their content."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.files import parsed, project_files, relative

# A loop over batches has a variable `batch`, a lookup of a connector a variable `connector`.
EMPTY_NAMES = {"one", "each", "some", "found"}


def test_names_name_their_content() -> None:
    assert [
        f"{relative(path)}:{line}: {name}"
        for path in project_files()
        if path.suffix == ".py"
        for line, name in sorted(set(defined_names(path)))
        if name.strip("_") in EMPTY_NAMES
    ] == []


def defined_names(path: Path) -> Iterator[tuple[int, str]]:
    """The names that a file defines, with their lines."""
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
