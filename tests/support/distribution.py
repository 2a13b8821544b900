"""An environment that has only Ottla's wheel and the distributions that the wheel requires.

The dependencies are links to those of the environment that runs the tests: nothing is downloaded, and a dependency that
the wheel does not declare is missing.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

from tools.build_dist import build

__all__ = ["Environment", "build_wheel", "new_environment"]


class Environment:
    """A virtual environment without pip."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "bin"
        (self.site,) = directory.glob("lib/python3*/site-packages")
        self.directory = directory

    def run(self, program: str, *words: str) -> str:
        """Runs a program of this environment, away from the checkout; returns its standard output."""
        return self.run_both(program, *words)[0]

    def run_both(self, program: str, *words: str) -> tuple[str, str]:
        """Runs a program; returns its standard output and its standard error."""
        completed = subprocess.run(
            [str(self.bin / program), *words],
            cwd=self.directory,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=540,
            check=False,
        )
        assert completed.returncode == 0, f"{completed.stdout[-3000:]}\n{completed.stderr[-6000:]}"
        return completed.stdout, completed.stderr

    def variables(self) -> dict[str, str]:
        """The variables of this process, without those that refer to its own Python."""
        return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}


def build_wheel(directory: Path) -> Path:
    """Builds the wheel of this checkout, by way of the source archive."""
    (wheel,) = (path for path in build(directory) if path.suffix == ".whl")
    return wheel


def new_environment(directory: Path, wheel: Path, *, extras: tuple[str, ...] = ()) -> Environment:
    venv.create(directory, symlinks=True)
    environment = Environment(directory)
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(environment.bin / "python")]
    # The few modules that a test imports are compiled on import.
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True)
    (own,) = importlib.metadata.distributions(name="ottla", path=[str(environment.site)])
    for distribution in required(own, extras):
        link(distribution, environment.site)
    return environment


def required(
    owner: importlib.metadata.Distribution, extras: tuple[str, ...] = ()
) -> Iterator[importlib.metadata.Distribution]:
    """The direct and indirect requirements of a distribution."""
    waiting = [(owner, extras)]
    seen = {(owner.metadata["Name"], extras)}
    while waiting:
        current, wanted = waiting.pop()
        for requirement in map(Requirement, current.requires or ()):
            applies = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            )
            key = (requirement.name, tuple(sorted(requirement.extras)))
            if not applies or key in seen:
                continue
            seen.add(key)
            own = requirement.name == owner.metadata["Name"]
            distribution = owner if own else importlib.metadata.distribution(requirement.name)
            assert distribution.version in requirement.specifier, f"{requirement} is {distribution.version} here"
            if not own:
                yield distribution
            waiting.append((distribution, key[1]))


def link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    """Links the files of a distribution into another environment."""
    for first in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        if not (site / first).exists():
            (site / first).symlink_to(Path(str(distribution.locate_file(first))))
