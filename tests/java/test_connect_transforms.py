"""The expected results of transforms (`tests/connect/data`) equal the current results of Kafka's own classes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import jars
from tests.support.brokers import QUICK_JVM_OPTIONS
from tests.support.java import compiled, java_command, unavailable_reason

DATA = Path(__file__).parent.parent / "connect" / "data"


def test_recorded_answers_are_kafkas(tmp_path: Path) -> None:
    reason = unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    generated = subprocess.run(
        [sys.executable, str(DATA / "make_cases.py")], capture_output=True, text=True, check=True
    )
    (tmp_path / "cases.json").write_text(generated.stdout)
    libraries = jars.fetch(jars.TOOLS)
    classes = compiled([DATA / "TransformCases.java"])
    command = [
        java_command(),
        *QUICK_JVM_OPTIONS,
        "-cp",
        f"{classes}:{libraries}/*",
        "TransformCases",
        str(tmp_path / "cases.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == json.loads((DATA / "transform_cases.json").read_text())
