"""The simulator as a command, in a process of its own: Python's hash seed can be chosen for a new process only."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["run_simulator"]


def run_simulator(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "ottla.sim", *arguments], env=environment, capture_output=True, text=True, timeout=600
    )
    return done.stdout + done.stderr
