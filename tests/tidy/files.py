"""The files of the project, as the rules see them."""

from __future__ import annotations

import ast
import functools
import shutil
import subprocess
from pathlib import Path

__all__ = ["GENERATED", "ROOT", "SOURCE", "parsed", "project_files", "relative", "source_modules"]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ottla"
# Written by our own generator from our own definitions; sizes say nothing about it.
GENERATED = SOURCE / "wire" / "messages"


@functools.cache
def project_files() -> list[Path]:
    """Every file under version control, and those that would be next; without git, every file that is no cache."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=True,
        )
        names = [name for name in listed.stdout.decode().split("\0") if name]
        return sorted(path for path in (ROOT / name for name in names) if path.is_file())
    return sorted(path for path in ROOT.rglob("*") if path.is_file() and not is_cache(path))


def is_cache(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part.startswith(".") or part in {"__pycache__", "data", "build", "dist"} for part in parts[:-1])


@functools.cache
def source_modules() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py" and path.is_relative_to(SOURCE)]


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
