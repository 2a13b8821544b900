"""A test that fails takes no other test with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import gc
import tempfile


class Live:
    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.itself = self


def test_that_fails():
    live = Live()
    assert live is None


def test_that_does_nothing():
    pass


def test_in_which_python_removes_what_was_left():
    gc.collect()
"""


def test_resources_of_a_failed_test_fail_no_other_test(tmp_path: Path) -> None:
    (tmp_path / "test_three.py").write_text(TESTS)
    root = Path(__file__).resolve().parents[3]
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", "-p", "tests.support.leftovers"]
    command = [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert "1 failed, 2 passed" in done.stdout, done.stdout
