"""`make demo`, shortened: the whole pipeline as the program that users start, and its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest

from examples.clickstream.ending import remove_former_files

# A program with a Spark of its own: too long for every change, so `make faults` runs it.
pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.timeout(300)]


def test_the_demo_ends_with_every_click_in_the_files_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.clickstream", "--seconds", "600", "--rate", "500", "--keep"]
    log = tmp_path / "output.txt"
    with log.open("wb") as output:
        demo = subprocess.Popen([*command, "--output", str(tmp_path)], stdout=output, stderr=output, process_group=0)
    try:
        # Ctrl-C ends the stream early, here when the first clicks are in files; it reaches all processes.
        wait_for(r"→ Parquet: [1-9]", log, demo)
        os.killpg(demo.pid, signal.SIGINT)
        # The node runs on, and its address is printed.
        bootstrap = wait_for(r"ottla top -b (\S+)", log, demo).group(1)
        listed = subprocess.run(
            [Path(sys.executable).with_name("ottla"), "topics", "list", "-b", bootstrap], capture_output=True, text=True
        )
        os.killpg(demo.pid, signal.SIGINT)
        status = demo.wait(90)
    finally:
        demo.kill()
        demo.wait()
    text = log.read_text()
    assert status == 0, text
    assert {"clicks", "clicks-enriched"} <= set(listed.stdout.split()), listed
    assert "each exactly once" in text
    assert "Traceback" not in text
    picture = (tmp_path / "clickstream.svg").read_text()
    for stage in ("clicks", "clicks-enriched", "Parquet"):
        assert f">{stage}</text>" in picture
    assert (tmp_path / "clickstream.png").read_bytes().startswith(b"\x89PNG")
    check_printed_query(text, tmp_path / "clicks")


def wait_for(pattern: str, log: Path, demo: subprocess.Popen[bytes]) -> re.Match[str]:
    end = time.monotonic() + 200
    while (match := re.search(pattern, log.read_text())) is None:
        assert demo.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)
    return match


def check_printed_query(output: str, files: Path) -> None:
    """The query for PySpark works as it is printed: it shows every click of the files, which have stayed."""
    clicks = sum(pyarrow.parquet.read_metadata(path).num_rows for path in files.glob("region=*/*.parquet"))
    program = re.search(r"^import ottla\.spark\n.*?\.show\(\)$", output, re.MULTILINE | re.DOTALL)
    assert program is not None, output
    printed = subprocess.run([sys.executable, "-c", program.group()], capture_output=True, text=True, check=True).stdout
    counts = [int(row.split("|")[3]) for row in printed.splitlines() if re.match(r"\|\s*(north|south|east|west)", row)]
    assert sum(counts) == clicks > 0, printed


def test_files_of_others_are_not_removed(tmp_path: Path) -> None:
    files = tmp_path / "clicks"
    (files / "region=north").mkdir(parents=True)
    (files / "_manifests").mkdir()
    assert remove_former_files(files) is None
    assert not files.exists()
    files.mkdir()
    (files / "thesis.txt").write_text("mine")
    assert "thesis.txt" in (remove_former_files(files) or "")
    assert (files / "thesis.txt").exists()
