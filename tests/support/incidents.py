"""The views in which an incident must be visible: metrics, the console, `ottla monitor` and `ottla doctor`."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ottla.cli.app import run as run_command
from ottla.testing.clusters import node_environment

__all__ = [
    "Monitor",
    "doctor_findings",
    "judged_groups",
    "monitor_process",
    "run_words",
    "scraped",
    "wait_for",
]

T = TypeVar("T")

WAIT_SECONDS_MAX = 60.0


def wait_for(look: Callable[[], T], description: str) -> T:
    """Repeats `look` until it returns a true value."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (outcome := look()):
        assert time.monotonic() < deadline, f"{description} was never seen"
        time.sleep(0.05)
    return outcome


def run_words(*words: str) -> tuple[int, str]:
    """Runs a command in this process, because a new process takes a second; returns its exit code and output."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = run_command(list(words))
    return code, printed.getvalue()


def doctor_findings(bootstrap: str, *options: str) -> list[dict[str, str]]:
    """All findings, the worst first; checks that the exit code is 1 only if a finding is a fault."""
    code, printed = run_words("doctor", "--json", "-b", bootstrap, *options)
    findings: list[dict[str, str]] = json.loads(printed)["findings"]
    assert code == (1 if any(finding["severity"] == "wrong" for finding in findings) else 0)
    return findings


def scraped(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def judged_groups(bootstrap: str, pattern: str) -> dict[str, str]:
    """The status of groups by `ottla monitor lag`, which handles signals and therefore needs its own process."""
    words = ["monitor", "lag", "-g", pattern, "--window", "3", "-n", "4", "-i", "0.2", "--json", "-b", bootstrap]
    completed = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS_MAX,
        env=node_environment(),
    )
    assert completed.returncode == 0, completed.stderr
    last = json.loads(completed.stdout.splitlines()[-1])
    return {row["group"]: row["status"] for row in last}


class Monitor:
    """A running `ottla monitor` with a metrics page."""

    def __init__(self, bootstrap: str, *options: str) -> None:
        words = ["monitor", "--json", "--metrics-port", "0", "--outage-after", "1", "-b", bootstrap, *options]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=node_environment(),
        )
        self.lines: list[dict[str, Any]] = []
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        wait_for(lambda: self._process.poll() is not None or self._line("ready"), "the start of the monitor")
        assert self._process.poll() is None, self._errors
        self.url = wait_for(lambda: self._line("metrics on"), "the address of the metrics").split()[-1]

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)

    def _line(self, beginning: str) -> str:
        return next((line for line in list(self._errors) if line.startswith(beginning)), "")

    def outages(self, since: int = 0) -> set[int]:
        """The leaders of partitions with an outage, after the first `since` events."""
        return {line["leader"] for line in self.lines[since:] if line.get("event") == "outage"}

    def stop(self) -> dict[str, Any]:
        """Stops the monitor in order; returns its final figures."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(WAIT_SECONDS_MAX)
        for thread in self._threads:
            thread.join(WAIT_SECONDS_MAX)
        return self.lines[-1]

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(WAIT_SECONDS_MAX)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdout.close()
        self._process.stderr.close()


@contextmanager
def monitor_process(bootstrap: str, *options: str) -> Iterator[Monitor]:
    running = Monitor(bootstrap, *options)
    try:
        yield running
    finally:
        running.kill()
