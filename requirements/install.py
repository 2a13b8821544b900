"""Installs a lock file with pip and shows how far it is.

    python requirements/install.py LOCK [OPTION OF PIP ...]

pip alone says nothing for a minute (`--quiet`) or prints hundreds of lines. Its output is shown in full if it fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = re.compile(r"^[A-Za-z0-9][\w.-]*==", re.MULTILINE)
STEP = re.compile(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9][\w.-]*)")
LAST = re.compile(r"Installing collected packages|Building wheel")


def main() -> int:
    lock, *options = sys.argv[1:]
    packages = len(PACKAGE.findall(Path(lock).read_text()))
    command = [sys.executable, "-m", "pip", "install", "--require-hashes", "--no-input", *options, "-r", lock]
    print(f"Installing the packages of {lock}, up to {packages}:", flush=True)
    pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    assert pip.stdout is not None
    said: list[str] = []
    collected: set[str] = set()
    for line in pip.stdout:
        said.append(line)
        if step := STEP.match(line):
            collected.add(step.group(1).lower())
            show(f"{len(collected):3} of {packages}: {step.group(1)}")
        elif LAST.search(line):
            show("unpacking" if "collected" in line else "building")
    show("done" if pip.wait() == 0 else "failed")
    if sys.stdout.isatty():
        print()
    if pip.returncode != 0:
        sys.stderr.write("".join(said))
    return pip.returncode


def show(text: str) -> None:
    """On a terminal the line changes in place; in a log a line for each package would be noise."""
    if sys.stdout.isatty():
        print(f"\r\033[K  {text}", end="", flush=True)
    elif text in ("done", "failed"):
        print(f"  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
