"""The list of mutants is true: every patch applies, and every test in it exists. `make mutants` runs them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mutants.__main__ import HERE, ROOT, Mutant, Tree, read_mutant, verdict_of

PATCHES = sorted(HERE.glob("*.patch"))
MUTANT = Mutant(path=HERE / "x.patch", test="tests/test_x.py::test_x", danger="Records are lost.", seed=7)


class FakeTree(Tree):
    """Answers as told, and copies nothing."""

    def __init__(self, *, complaint: str | None = None, test_code: int = 1, sim_code: int = 1) -> None:
        self.complaint = complaint
        self.codes = (test_code, sim_code)
        self.restored: list[Mutant] = []

    def apply(self, mutant: Mutant) -> str | None:
        return self.complaint

    def restore(self, mutant: Mutant) -> None:
        self.restored.append(mutant)

    def test(self, tests: Sequence[str]) -> tuple[int, str]:
        assert list(tests) == [MUTANT.test]
        return self.codes[0], "output"

    def simulate(self, seed: int) -> tuple[int, str]:
        assert seed == MUTANT.seed
        return self.codes[1], "output"


def test_every_patch_applies() -> None:
    done = [
        subprocess.run(["git", "apply", "--check", str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
        for path in PATCHES
    ]
    assert [run.stderr for run in done if run.returncode] == []


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_the_named_test_exists(path: Path) -> None:
    file, *names = read_mutant(path).test.split("[")[0].split("::")
    body: list[ast.stmt] = ast.parse((ROOT / file).read_text()).body
    for name in names:
        (definition,) = [
            node for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name
        ]
        body = definition.body


def test_a_patch_without_a_reason_is_refused(tmp_path: Path) -> None:
    patch = tmp_path / "x.patch"
    patch.write_text("Test: tests/test_x.py\n\n--- a/x\n+++ b/x\n")
    with pytest.raises(ValueError, match="Danger"):
        read_mutant(patch)


def test_a_mutant_whose_test_fails_is_caught() -> None:
    tree = FakeTree()
    assert verdict_of(tree, MUTANT, simulates=True) is None
    assert tree.restored == [MUTANT]


@pytest.mark.parametrize(
    ("tree", "verdict"),
    [
        (FakeTree(complaint="error: x"), "does not apply: error: x"),
        (FakeTree(test_code=0), "survives tests/test_x.py::test_x. Records are lost."),
        # A test that cannot be collected has not noticed anything.
        (FakeTree(test_code=2), "did not run"),
        (FakeTree(test_code=4), "did not run"),
        (FakeTree(test_code=5), "did not run"),
        (FakeTree(sim_code=0), "survives seed 7"),
    ],
)
def test_anything_else_is_reported(tree: FakeTree, verdict: str) -> None:
    assert verdict in (verdict_of(tree, MUTANT, simulates=True) or "")
