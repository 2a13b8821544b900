"""Every package has a README, every module says what it offers, every API says which versions it serves."""

from __future__ import annotations

import ast
import re

import pytest

from ottla.broker.apis import HANDLERS, HandlerSpec
from tests.tidy.files import SOURCE, parsed, relative, source_modules


def test_every_package_has_a_readme() -> None:
    packages = {path.parent for path in source_modules() if path.name == "__init__.py" and path.parent != SOURCE}
    assert [relative(package) for package in sorted(packages) if not (package / "README.md").is_file()] == []


def test_every_module_has_a_docstring_and_says_what_it_offers() -> None:
    def complaint(tree: ast.Module) -> str | None:
        if not tree.body:
            return None
        if ast.get_docstring(tree) is None:
            return "no docstring"
        if len(tree.body) == 1:
            # A package that is only its docstring offers nothing.
            return None
        names = {target.id for node in tree.body for target in assigned(node) if isinstance(target, ast.Name)}
        return None if "__all__" in names else "no __all__"

    complaints = {relative(path): complaint(parsed(path)) for path in source_modules() if path.name != "__main__.py"}
    assert {path: complaint_of_module for path, complaint_of_module in complaints.items() if complaint_of_module} == {}


@pytest.mark.parametrize(
    "specification",
    [specification for specification in HANDLERS.values() if specification.module != "switched_off"],
    ids=lambda specification: specification.module,
)
def test_an_api_module_opens_with_its_versions(specification: HandlerSpec) -> None:
    path = SOURCE / "broker" / "apis" / f"{specification.module}.py"
    if not path.exists():
        path = path.with_suffix("") / "__init__.py"
    docstring = ast.get_docstring(parsed(path)) or ""
    key = next(key for key, value in HANDLERS.items() if value is specification)
    opening = re.match(r"\w+ \(key (\d+)\), versions? (\d+)(?:(?: to | and |, )(\d+))?\b", docstring)
    assert opening is not None, f"{relative(path)} must open like: Fetch (key 1), versions 4 to 18"
    assert int(opening.group(1)) == key
    # A range that is advertised but not served may be written in other words; the highest version may not.
    assert int(opening.group(3) or opening.group(2)) == specification.max_version


def assigned(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []
