"""Below `host` no module reads a clock, draws a random number or suspends; import-linter checks who imports whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.files import SOURCE, parsed, relative, source_modules

# The packages that may touch the outside world.
# `tls` reads key stores for `host` and for clients.
OUTER = (
    "host",
    "cli",
    "testing",
    "client",
    "sim",
    "spark",
    "connect",
    "streams",
    "lake",
    "mirror",
    "monitor",
    "balance",
    "serdes",
    "registry",
    "console",
    "encryption",
    "tls",
)
# The packages that no broker process loads; import-linter holds brokers to it.
NOT_A_NODE = (
    *("testing", "sim", "spark", "connect", "streams", "mirror", "lake"),
    *("monitor", "balance", "serdes", "registry", "console", "encryption"),
)
OUTSIDE_WORLD = {
    "asyncio",
    "random",
    "secrets",
    "select",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uvloop",
}
# Their import alone costs megabytes or tens of milliseconds, in a process that starts in a fraction of a second.
HEAVY = {"email", "http", "inspect", "typing_extensions", "unittest", "urllib", "xml", "multiprocessing", "concurrent"}
# Modules that are imported with the first login over OAUTHBEARER, which needs HTTP.
WITH_HTTP = ("client/oauth/", "host/http_requests.py", "host/key_documents.py", "host/schema_lookups.py")


def test_inner_packages_do_not_touch_the_outside_world() -> None:
    assert offences(inner_modules(), OUTSIDE_WORLD) == []


def test_the_broker_process_imports_nothing_heavy() -> None:
    modules = [
        path
        for path in source_modules()
        if path.relative_to(SOURCE).parts[0] not in NOT_A_NODE
        and not path.relative_to(SOURCE).as_posix().startswith(WITH_HTTP)
    ]
    assert offences(modules, HEAVY) == []


def test_only_outer_packages_suspend() -> None:
    suspending = [
        f"{relative(path)}:{node.lineno}"
        for path in inner_modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
    ]
    assert suspending == []


def inner_modules() -> list[Path]:
    return [path for path in source_modules() if path.relative_to(SOURCE).parts[0] not in OUTER]


def offences(modules: list[Path], forbidden: set[str]) -> list[str]:
    return [
        f"{relative(path)}: {name}"
        for path in modules
        for node in executed(parsed(path))
        for name in imported(node)
        if name.partition(".")[0] in forbidden
    ]


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only the type checker sees; `from random import Random` names a type, too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and [alias.name for alias in child.names] == ["Random"]:
            continue
        yield child
        yield from executed(child)


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module]
    return []
