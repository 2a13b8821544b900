"""The state of a machine changes in its own module only; other modules call its methods.

Fields stay plain attributes, because produce and fetch read them often, so no interpreter would refuse an assignment
from outside. This test does. It knows no types: a field that only guarded classes have is guarded on every receiver, a
field that other classes have too on the receivers that are named after a guarded class.

Hooks (`on_...`) are assigned by the owner of a machine, and are not its state.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tidy.files import SOURCE, parsed, relative, source_modules

# Module -> class -> what variables and fields that hold an instance are called.
GUARDED: dict[str, dict[str, tuple[str, ...]]] = {
    "replica/partition.py": {"Partition": ("partition",)},
    "replica/leadership.py": {"LeaderState": ("state", "leader_state"), "FollowerProgress": ("progress",)},
    "replica/fetch_sessions.py": {
        "FetchSession": ("session",),
        "FetchEntry": ("entry",),
        "FetchSessions": ("sessions",),
        "FetchPlan": ("plan",),
    },
    "replica/followed_partition.py": {"FollowedPartition": ("followed",)},
    "storage/log.py": {"PartitionLog": ("log", "current", "future")},
    "storage/tail.py": {"LogTail": ("tail", "_tail")},
    "storage/log_files.py": {"LogFiles": ("files",)},
    "storage/durability.py": {"Durability": ("durability",)},
    "storage/failures.py": {"LogFailures": ("failures", "_failures")},
    "storage/segments.py": {"Segments": ("segments",)},
    "storage/leader_epochs.py": {"LeaderEpochs": ("epochs", "_epochs")},
    "storage/producers.py": {"ProducerLedger": ("producers", "_producers")},
    "storage/producer_state.py": {"ProducerState": ("state",), "ProducerEntry": ("producer",)},
    "quorum/machine.py": {"QuorumMachine": ("machine",)},
    "quorum/role_state.py": {"RoleState": ("roles", "_roles")},
    "quorum/voter_requests.py": {"VoterRequests": ("requests", "_requests")},
    "quorum/fetch_cycle.py": {"FetchCycle": ("fetches", "_fetches")},
    "quorum/leadership.py": {"Leadership": ("leadership",)},
}
# Packages that no node consists of.
OUTSIDE = ("balance", "cli", "client", "connect", "lake", "mirror", "monitor", "spark", "streams", "testing")
# Modules of lower packages do not know the machine: a variable of the same name holds something else there.
BELOW = {
    "storage": ("model", "records", "wire"),
    "quorum": ("model", "records", "wire", "storage"),
    "replica": ("model", "records", "wire", "storage", "quorum", "metadata"),
}
CHANGING_METHODS = frozenset(
    ("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update")
)
CONTAINERS = frozenset(("dict", "set", "list", "deque", "OrderedDict"))


class Field(NamedTuple):
    name: str
    is_container: bool


def test_the_state_of_a_machine_changes_in_its_own_module_only() -> None:
    fields, ambiguous = guarded_fields()
    findings = [
        f"{relative(path)}:{line}: {text}"
        for path in modules_of_nodes()
        for line, text in outside_changes(parsed(path), module_of(path), fields, ambiguous)
    ]
    assert not findings, "give the class a method for it:\n" + "\n".join(findings)


@pytest.mark.parametrize(
    "line",
    [
        "partition.leader_epoch = 3",
        "self.partition.unseen_bytes += 1",
        "entry.partition.leader_state = None",
        "del partition.quiet_followers[3]",
        "partition.quiet_followers.clear()",
        "partition.refusal, other = None, 1",
        "progress.caught_up_ms = 1",
        "anything.leader_end_offset_at_fetch = 1",
        "session.live.pop(entry)",
        "log.high_watermark = 5",
        "machine._roles = None",
    ],
)
def test_a_change_from_outside_is_found(line: str) -> None:
    fields, ambiguous = guarded_fields()
    assert list(outside_changes(ast.parse(line), "replica/elsewhere.py", fields, ambiguous))


@pytest.mark.parametrize(
    "line",
    [
        "partition.parked_produces.add(self)",
        "partition.counters.bytes_in += 1",
        "log.on_cut = self.on_cut",
        "answer.leader_epoch = 3",
        "self.leader_epoch = 3",
        "high_watermark = partition.high_watermark",
    ],
)
def test_what_is_allowed_is_not_found(line: str) -> None:
    fields, ambiguous = guarded_fields()
    assert not list(outside_changes(ast.parse(line), "replica/elsewhere.py", fields, ambiguous))


@functools.cache
def guarded_fields() -> tuple[dict[tuple[str, str], set[Field]], set[str]]:
    """(module, class) -> its fields, and the names that classes which are not guarded have as well."""
    fields: dict[tuple[str, str], set[Field]] = {}
    ambiguous: set[str] = set()
    for path in modules_of_nodes():
        module = module_of(path)
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                if node.name in GUARDED.get(module, ()):
                    fields[module, node.name] = {field for field in fields_of(node) if not field.name.startswith("on_")}
                else:
                    ambiguous |= {field.name for field in fields_of(node)}
    missing = {(module, name) for module, classes in GUARDED.items() for name in classes} - fields.keys()
    assert not missing, f"guarded classes that are not there any more: {missing}"
    return fields, ambiguous


def fields_of(node: ast.ClassDef) -> Iterator[Field]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield Field(statement.target.id, is_container=False)
        if isinstance(statement, ast.Assign) and last_name(statement.targets[0]) == "__slots__":
            for name in ast.walk(statement.value):
                if isinstance(name, ast.Constant):
                    yield Field(str(name.value), is_container=False)
    if is_generated(node):
        return
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Assign, ast.AnnAssign)):
            for target in targets_of(inner):
                if isinstance(target, ast.Attribute) and last_name(target.value) == "self":
                    yield Field(target.attr, is_container=is_container(inner.value))


def is_container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.IfExp):
        return is_container(value.body) or is_container(value.orelse)
    if isinstance(value, ast.Call):
        return (isinstance(value.func, ast.Name) and value.func.id in CONTAINERS) or last_name(value.func) == "fromkeys"
    return isinstance(value, (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp))


def outside_changes(
    tree: ast.Module, module: str, fields: dict[tuple[str, str], set[Field]], ambiguous: set[str]
) -> Iterator[tuple[int, str]]:
    package = module.partition("/")[0]
    for node in ast.walk(tree):
        for attribute, is_call in changed_attributes(node):
            receiver = last_name(attribute.value)
            if receiver in ("self", "cls"):
                continue
            for (owner, name), owned in fields.items():
                held = {field.name for field in owned if field.is_container or not is_call}
                is_named = receiver in GUARDED[owner][name] and package not in BELOW[owner.partition("/")[0]]
                if attribute.attr in held and owner != module and (is_named or attribute.attr not in ambiguous):
                    yield getattr(node, "lineno", 0), ast.unparse(node).split("\n")[0]
                    break


def changed_attributes(node: ast.AST) -> Iterator[tuple[ast.Attribute, bool]]:
    """Attributes that a statement assigns or deletes, wholly or in part, and those whose container a call changes."""
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
        for target in targets_of(node):
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Attribute):
                yield target, False
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CHANGING_METHODS
        and isinstance(node.func.value, ast.Attribute)
    ):
        yield node.func.value, True


def targets_of(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete) -> Iterator[ast.expr]:
    targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
    for target in targets:
        yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]


def last_name(node: ast.expr) -> str:
    """`partition` of `partition`, `self.partition` and `wait.partition`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def is_generated(node: ast.ClassDef) -> bool:
    """Messages of the protocol: there are thousands, and `__slots__` names all of their fields."""
    return any(last_name(base) in ("Message", "Structure") for base in node.bases)


@functools.cache
def modules_of_nodes() -> list[Path]:
    return [path for path in source_modules() if module_of(path).partition("/")[0] not in OUTSIDE]


def module_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()
