"""`python -m tests.mutants`: dangerous changes to the source, and the test that has to notice each of them.

A mutant is a patch file in this folder. The lines before the diff name the test that must fail (`Test:`), say why the
change is dangerous (`Danger:`), and may name a seed of the simulator that finds it as well (`Seed:`).

The runner copies the source and the tests to a temporary directory, and never changes the work tree. First all named
tests have to pass in the copy as it is. Then each patch is applied alone, and its test has to fail. A patch that no
longer applies, a test that does not exist and a test that cannot be collected are errors: the list has to stay true.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

__all__ = ["Mutant", "Tree", "main", "read_mutant", "verdict_of"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COPIED = ("src", "tests", "pyproject.toml")
NOT_COPIED = shutil.ignore_patterns("java", "kafka", "spark", "data", "*.so")

# The exit codes of pytest.
ALL_PASSED, SOME_FAILED = 0, 1
TEST_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One patch file."""

    path: Path
    test: str
    danger: str
    # A seed of the simulator that finds the mutant; None if none is known.
    seed: int | None

    @property
    def name(self) -> str:
        return self.path.stem


def read_mutant(path: Path) -> Mutant:
    """The fields before the diff. Raises ValueError if one is missing."""
    fields: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if line.startswith("--- "):
            break
        name, _, value = line.partition(": ")
        fields[name] = value.strip()
    missing = [name for name in ("Test", "Danger") if not fields.get(name)]
    if missing:
        raise ValueError(f"{path.name} lacks the line {missing[0]!r}")
    seed = fields.get("Seed")
    return Mutant(path=path, test=fields["Test"], danger=fields["Danger"], seed=None if seed is None else int(seed))


class Tree:
    """A copy of the source and the tests, in which one mutant at a time lives."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, directory / name, ignore=NOT_COPIED)
            else:
                shutil.copy2(source, directory / name)

    def apply(self, mutant: Mutant) -> str | None:
        """Changes the copy. Returns the complaint of a patch that does not apply."""
        done = self._run(["git", "apply", "--whitespace=nowarn", str(mutant.path)])
        return None if done.returncode == 0 else done.stderr.strip()

    def restore(self, mutant: Mutant) -> None:
        """Copies the changed files from the work tree again, with their times: cached bytecode stays valid."""
        for line in mutant.path.read_text().splitlines():
            if line.startswith("+++ b/"):
                name = line.removeprefix("+++ b/").strip()
                shutil.copy2(ROOT / name, self.directory / name)

    def test(self, tests: Sequence[str]) -> tuple[int, str]:
        """The exit code of pytest and the end of its output."""
        done = self._run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests])
        return done.returncode, done.stdout[-3000:] + done.stderr[-1000:]

    def simulate(self, seed: int) -> tuple[int, str]:
        done = self._run([sys.executable, "-m", "ottla.sim", "--seed", str(seed)])
        return done.returncode, done.stdout[-3000:]

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            # Before the installed package, which is the work tree.
            "PYTHONPATH": str(self.directory / "src"),
            # A mutant and the original may have the same size and second: no bytecode of either is written.
            "PYTHONDONTWRITEBYTECODE": "1",
            # The copy belongs to no repository, whatever surrounds it.
            "GIT_CEILING_DIRECTORIES": str(self.directory.parent),
        }
        return subprocess.run(
            command,
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TEST_SECONDS_MAX,
            check=False,
        )


def verdict_of(tree: Tree, mutant: Mutant, *, simulates: bool = False) -> str | None:
    """None if the mutant is caught, or the sentence that says why not."""
    complaint = tree.apply(mutant)
    if complaint is not None:
        return f"the patch does not apply: {complaint}"
    try:
        code, output = tree.test([mutant.test])
        if code == ALL_PASSED:
            return f"survives {mutant.test}. {mutant.danger}"
        if code != SOME_FAILED:
            return f"{mutant.test} did not run (exit code {code}):\n{output}"
        if simulates and mutant.seed is not None:
            code, output = tree.simulate(mutant.seed)
            if code == 0:
                return f"survives seed {mutant.seed} of the simulator. {mutant.danger}"
    finally:
        tree.restore(mutant)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only mutants whose name contains one of these")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tested at the same time")
    parser.add_argument("--sim", action="store_true", help="also run the seeds that the patches name")
    options = parser.parse_args(arguments)
    mutants = [read_mutant(path) for path in sorted(HERE.glob("*.patch"))]
    if options.names:
        mutants = [mutant for mutant in mutants if any(name in mutant.name for name in options.names)]
    if not mutants:
        parser.error("no mutant has such a name")
    with tempfile.TemporaryDirectory(prefix="ottla-mutants-") as scratch:
        return _run_all(Path(scratch), mutants, jobs=options.jobs, simulates=options.sim)


def _run_all(scratch: Path, mutants: list[Mutant], *, jobs: int, simulates: bool) -> int:
    trees: SimpleQueue[Tree] = SimpleQueue()
    first = Tree(scratch / "0")
    code, output = first.test(sorted({mutant.test for mutant in mutants}))
    if code != ALL_PASSED:
        print(f"The tests have to pass without any mutant:\n{output}")
        return 1
    trees.put(first)
    for number in range(1, jobs):
        trees.put(Tree(scratch / str(number)))

    def judge(mutant: Mutant) -> str | None:
        tree = trees.get()
        try:
            return verdict_of(tree, mutant, simulates=simulates)
        finally:
            trees.put(tree)

    survivors = 0
    with ThreadPoolExecutor(jobs) as pool:
        for mutant, verdict in zip(mutants, pool.map(judge, mutants), strict=True):
            survivors += verdict is not None
            print(f"{'caught  ' if verdict is None else 'SURVIVES'}  {mutant.name}", flush=True)
            if verdict is not None:
                print(f"          {verdict}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants are caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
