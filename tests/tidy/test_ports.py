"""Ports are reserved by the test that uses them.

Pytest imports every module before the first test runs. A port reserved at import is released as soon as many others
are reserved (`ottla.host.free_ports.PORTS_KEPT_MAX`), long before its test starts, and another process may get it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.files import ROOT, parsed, project_files, relative


def test_no_port_is_reserved_at_import() -> None:
    tests = [path for path in project_files() if path.suffix == ".py" and path.is_relative_to(ROOT / "tests")]
    assert [
        f"{relative(path)}:{node.lineno}"
        for path in tests
        for node in run_at_import(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "free_ports"
    ] == []


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below `node`, without the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from run_at_import(child)


def test_a_port_reserved_at_import_is_found() -> None:
    reserved = ast.parse("(PORT,) = free_ports(1)\ndef later():\n    free_ports(1)\n")
    assert [node.lineno for node in run_at_import(reserved) if isinstance(node, ast.Call)] == [1]
