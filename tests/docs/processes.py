"""The terminal, the servers and the Python interpreter of a page."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.docs.matching import matches
from tests.docs.pages import ROOT, Command

__all__ = ["Failed", "Interpreter", "Server", "Terminal"]

SECONDS_MAX = 240.0
STOP_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
SERVER = re.compile(r"^(\S*/)?(ottla (up|node|registry|connect (standalone|distributed))|make (run|demo KEEP=1))\b")
READY = re.compile(r"^ready |is ready at|answers at http|listens at http", re.MULTILINE)
HELP = re.compile(r" (-h|--help)\b")


class Failed(Exception):
    """A block did not do what the page says."""


def environment(directory: Path) -> dict[str, str]:
    """A reader's environment: the commands of this installation, a home without settings, a terminal of 100 columns."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKEFLAGS", "PYTEST_CURRENT_TEST", "VIRTUAL_ENV")
    }
    home = directory.parent / "home"
    home.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    return {**kept, "PATH": path, "HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1"}


def is_server(text: str) -> bool:
    return SERVER.match(text) is not None and not HELP.search(text)


class Server:
    """A command that runs until Ctrl-C."""

    def __init__(self, text: str, directory: Path, log: Path, variables: dict[str, str]) -> None:
        self.text = text
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["bash", "-c", f"exec {text}"],
                cwd=directory,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until(self, arrived: Callable[[str], object]) -> None:
        end = time.monotonic() + SECONDS_MAX
        while not arrived(self.output):
            if self._process.poll() is not None:
                raise Failed(f"`{self.text}` ended with {self._process.returncode}:\n{self.output}")
            if time.monotonic() > end:
                self.kill()
                raise Failed(f"`{self.text}` did not become ready:\n{self.output}")
            time.sleep(POLL_SECONDS)

    def wait_until_ready(self) -> None:
        self.wait_until(READY.search)

    def stop(self) -> None:
        """Ctrl-C, as a reader would stop it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            status = self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"`{self.text}` did not stop after Ctrl-C:\n{self.output}") from None
        # make reports an interrupted command with 2.
        if status not in (0, 130, -signal.SIGINT) and not (status == 2 and self.text.startswith("make")):
            raise Failed(f"`{self.text}` ended with {status} after Ctrl-C:\n{self.output}")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Terminal:
    """A shell whose directory and exported variables last from command to command."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._scratch = directory.parent
        self._state = self._scratch / "shell-state"
        self._variables = environment(directory)
        self._servers: list[Server] = []
        self._count = 0
        self._state.write_text(f"cd {shlex.quote(str(directory))}\n")

    def run(self, command: Command) -> None:
        """Runs a command, and compares its output with what the page shows."""
        self._count += 1
        log = self._scratch / f"output-{self._count}"
        if is_server(command.text):
            self._start_server(command, log)
        elif command.output.endswith("^C"):
            self._run_until_interrupted(command, log)
        else:
            self._run(command, log)

    def stop_servers(self) -> None:
        while self._servers:
            self._servers.pop().stop()

    def kill_servers(self) -> None:
        while self._servers:
            self._servers.pop().kill()

    def server_output(self) -> str:
        return "".join(f"--- {server.text}\n{server.output[-6000:]}\n" for server in self._servers)

    def _start_server(self, command: Command, log: Path) -> None:
        server = Server(command.text, self._directory, log, self._variables)
        self._servers.append(server)
        server.wait_until_ready()
        shown = command.output.removesuffix("^C").rstrip("\n")
        if shown:
            # The log of the node follows; the page shows what is printed first.
            server.wait_until(lambda output: matches(f"{shown}\n...", output))
        if command.output.endswith("^C"):
            self._servers.remove(server)
            server.stop()

    def _run_until_interrupted(self, command: Command, log: Path) -> None:
        shown = command.output.removesuffix("^C").rstrip("\n")
        server = Server(command.text, self._directory, log, self._variables)
        server.wait_until(lambda output: output.strip() and matches(shown or "...", output))
        server.stop()

    def _run(self, command: Command, log: Path) -> None:
        script = (
            f"source {shlex.quote(str(self._state))}\n{command.text}\nstatus=$?\n"
            f"{{ export -p; echo cd \"'$PWD'\"; }} > {shlex.quote(str(self._state))}\nexit $status\n"
        )
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", script],
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        try:
            status = process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Failed(f"`{command.text}` did not end:\n{log.read_text(errors='replace')}") from None
        printed = log.read_text(errors="replace")
        if status != 0:
            raise Failed(f"`{command.text}` ended with {status}:\n{printed}")
        compare(command.text, command.output, printed)


def compare(source: str, expected: str, output: str) -> None:
    if expected and not matches(expected, output):
        raise Failed(f"`{source}` printed\n{output}\nand the page shows\n{expected}")


class Interpreter:
    """One Python for all blocks of a page."""

    def __init__(self, directory: Path) -> None:
        block_reader, block_writer = os.pipe()
        answer_reader, answer_writer = os.pipe()
        self._log = directory.parent / "python-output"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-u", str(ROOT / "tests/docs/session.py"), str(block_reader), str(answer_writer)],
                cwd=directory,
                env=environment(directory),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=(directory.parent / "python-errors").open("wb"),
                pass_fds=(block_reader, answer_writer),
                process_group=0,
            )
        os.close(block_reader)
        os.close(answer_writer)
        self._blocks, self._answers = block_writer, answer_reader
        self._errors = directory.parent / "python-errors"
        self._seen = 0

    def run(self, name: str, text: str, expected: str | None) -> None:
        os.write(self._blocks, json.dumps({"name": name, "text": text}).encode() + b"\n")
        ready, _, _ = select.select([self._answers], [], [], SECONDS_MAX)
        answer = os.read(self._answers, 100) if ready else b""
        output = self._log.read_bytes()[self._seen :].decode(errors="replace")
        self._seen += len(output.encode())
        if answer != b"ok\n":
            outcome = "failed" if answer else "did not end"
            raise Failed(f"the Python block {outcome}:\n{output}\n{self._errors.read_text(errors='replace')[-6000:]}")
        compare(name, expected or "", output)

    def close(self) -> None:
        os.close(self._blocks)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS_MAX)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._answers)
