"""`make demo`, in short: the whole pipeline as the program that people start, and its ending."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# A program with a Spark of its own: too long for every change, so `make faults` runs it.
pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.timeout(300)]


def test_the_demo_ends_with_every_click_in_the_files_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.clickstream", "--seconds", "600", "--rate", "500"]
    log = tmp_path / "output.txt"
    with log.open("wb") as output:
        demo = subprocess.Popen([*command, "--output", str(tmp_path)], stdout=output, stderr=output, process_group=0)
    try:
        # Whoever has seen enough presses Ctrl-C, here when the first clicks are in files; all processes hear it.
        end = time.monotonic() + 200
        while not re.search(r"→ Parquet: [1-9]", log.read_text()):
            assert demo.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        os.killpg(demo.pid, signal.SIGINT)
        status = demo.wait(90)
    finally:
        demo.kill()
        demo.wait()
    said = log.read_text()
    assert status == 0, said
    assert "each exactly once" in said
    assert "Traceback" not in said
    picture = (tmp_path / "clickstream.svg").read_text()
    for stage in ("clicks", "clicks-enriched", "Parquet"):
        assert f">{stage}</text>" in picture
    assert (tmp_path / "clickstream.png").read_bytes().startswith(b"\x89PNG")
