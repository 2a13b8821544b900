"""The output of a measurement: Kafka's line for scripts, and a narrower line for people."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios

import pytest

from ottla.cli.commands.perf import report_produced
from ottla.cli.logic.latencies import Summary
from ottla.cli.output import Output

SUMMARY = Summary(1_000_000, 123.456, 1234.5, 100.0, 200.0, 300.0, 1000.0)
LINE = (
    "1000000 records sent, 100000.0 records/sec (95.37 MB/sec), 123.46 ms avg latency, 1234.50 ms max latency, "
    "100 ms 50th, 200 ms 95th, 300 ms 99th, 1000 ms 99.9th."
)


def report() -> None:
    report_produced(Output(as_json=False), 1_000_000, 1_000_000_000, 10.0, SUMMARY, {})


def shown_on_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    shown_to, written_to = os.openpty()
    fcntl.ioctl(written_to, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        with monkeypatch.context() as patch, open(written_to, "w") as terminal:
            patch.setattr(sys, "stdout", terminal)
            report()
            terminal.flush()
            return os.read(shown_to, 4096).decode().splitlines()
    finally:
        os.close(shown_to)


def test_a_script_reads_kafkas_line(capsys: pytest.CaptureFixture[str]) -> None:
    report()
    assert capsys.readouterr().out == LINE + "\n"


def test_a_terminal_gets_what_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_on_a_terminal(200, monkeypatch) == [LINE]
    narrow = shown_on_a_terminal(80, monkeypatch)
    assert " ".join(narrow) == LINE
    assert max(map(len, narrow)) <= 80
