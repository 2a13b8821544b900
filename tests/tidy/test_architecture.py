"""`ARCHITECTURE.md` names modules, classes and functions that exist, and the layers that import-linter checks.

A name in backticks is one of these, or a word that `FOREIGN` explains:

- a path below `src/ottla` without its ending (`host/connection`), or with it (`model/ports.py`),
- a function or class of a module (`records/validate.validate_batches`),
- a class (`MetadataImage`) or a method, property or field of one (`MetadataDelta.replay`),
- a file or directory of the project (`docs/decisions/`), or a target of the Makefile (`make lint`).
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from pathlib import Path

import pytest

from tests.tidy.files import ROOT, SOURCE, parsed, source_modules

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
# Words of the protocol, of Python, of the operating system and of Kafka's files.
FOREIGN = {
    "acks=1",
    "acks=all",
    "read_committed",
    "async",
    "sendfile",
    "write",
    "ottla",
    "kafka-dump-log",
    "__cluster_metadata-0",
    "__transaction_state",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "meta.properties",
    "ottla-clean-logs",
    "<topic>-<partition>/00000000000000000000.{log,index,timeindex,txnindex,snapshot}",
}


def test_every_name_exists() -> None:
    assert [name for name in names(ARCHITECTURE.read_text()) if name not in FOREIGN and not exists(name)] == []


def test_every_explained_word_is_used() -> None:
    assert FOREIGN - set(names(ARCHITECTURE.read_text())) == set()


def test_the_layers_are_those_that_import_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["name"] == "Imports go downwards only"]
    checked = [{name.strip().removeprefix("ottla.") for name in layer.split("|")} for layer in layers]
    assert layers_told(ARCHITECTURE.read_text()) == checked


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("host", True),
        ("model/ports", True),
        ("model/ports.py", True),
        ("model/ports.Clock", True),
        ("model/ports.Watch", False),
        ("model/harbours", False),
        ("model/deferred.Deferred", True),
        ("MetadataImage", True),
        ("MetadataPicture", False),
        ("MetadataDelta.replay", True),
        ("MetadataDelta.repeat", False),
        # A function is named with its module or its class: elsewhere another function may have the same name.
        ("replay", False),
        ("docs/decisions/", True),
        ("docs/indecisions/", False),
        ("make sim SEEDS=1000", True),
        ("make coffee", False),
    ],
)
def test_what_counts_as_a_name(name: str, is_there: bool) -> None:
    assert exists(name) == is_there


def names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def layers_told(text: str) -> list[set[str]]:
    """The packages of each row of the table of layers, from the top."""
    rows = re.findall(r"^\|[^|]*\|([^|]*`[^|]*)\|", text.partition("## The layers")[2].partition("\n## ")[0], re.M)
    return [set(names(row)) for row in rows]


def exists(name: str) -> bool:
    if name.startswith("make "):
        return re.search(rf"^{name.split()[1]}:", (ROOT / "Makefile").read_text(), re.M) is not None
    if "/" not in name and (name[0].isupper() or "." in name):
        owner, _, member = name.partition(".")
        return owner in classes() and (not member or member in classes()[owner])
    if any((folder / name).exists() for folder in (ROOT, SOURCE)) or (SOURCE / f"{name}.py").is_file():
        return True
    path, _, attribute = name.rpartition(".")
    module, _, owner = path.partition(".")
    file = SOURCE / f"{module}.py" if (SOURCE / f"{module}.py").is_file() else SOURCE / module / "__init__.py"
    if not module or not file.is_file():
        return False
    if owner:
        return attribute in members_of(file).get(owner, set())
    return attribute in defined(parsed(file).body)


@functools.cache
def classes() -> dict[str, set[str]]:
    """Every class of the code, and what it defines; classes of one name count as one."""
    members_by_class: dict[str, set[str]] = {}
    for path in source_modules():
        for name, members in members_of(path).items():
            members_by_class.setdefault(name, set()).update(members)
    return members_by_class


def members_of(path: Path) -> dict[str, set[str]]:
    return {node.name: defined(node.body) for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)}


def defined(body: list[ast.stmt]) -> set[str]:
    """Functions, classes and fields of a module or class."""
    defined_names = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined_names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined_names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            defined_names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return defined_names
