"""Builds the source archive and the wheel of this checkout: `python tools/build_dist.py dist`.

The wheel is built from the source archive, so that a file which the archive lacks is noticed here. Both are built in a
copy of the sources: the checkout, and the metadata of an editable installation beside it, stay as they are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")
BUILT = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
SDIST = "import sys, setuptools.build_meta as backend; backend.build_sdist(sys.argv[1])"


def build(target: Path) -> list[Path]:
    """Builds both files into a directory, replacing earlier ones."""
    target.mkdir(parents=True, exist_ok=True)
    for former in target.glob("ottla-*"):
        former.unlink()
    with tempfile.TemporaryDirectory(prefix="ottla-dist-") as directory:
        sources = Path(directory) / "ottla"
        shutil.copytree(ROOT / "src", sources / "src", ignore=BUILT)
        for name in FILES:
            shutil.copy(ROOT / name, sources)
        _run(sys.executable, "-c", SDIST, str(target.resolve()), cwd=sources)
        (archive,) = target.glob("ottla-*.tar.gz")
        # setuptools is the one of this environment, pinned by requirements/dev.lock.
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(target.resolve())]
        _run(sys.executable, "-m", "pip", "wheel", *options, str(archive.resolve()), cwd=sources)
    return sorted(target.glob("ottla-*"))


def _run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout[-4000:]}{done.stderr[-4000:]}\nbuild_dist: {' '.join(command)} failed")


if __name__ == "__main__":
    for path in build(Path(sys.argv[1])):
        print(path)
