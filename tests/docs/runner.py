"""`python -m tests.docs.runner PAGE ...`: runs the blocks of pages in order, each page in a place of its own."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

from tests.docs.isolation import PortTaken, bring_loopback_up, exclusive, namespace_command
from tests.docs.pages import ROOT, Block, Command, Page, PageError, parse
from tests.docs.processes import Failed, Interpreter, Terminal

__all__ = ["SKIPPED", "main", "run_page"]

# The exit code of a page that could not be run here.
SKIPPED = 77
# A page that calls `make` runs in a directory that looks like a checkout.
STAMPS = ("node", "ready")
NOT_IN_CHECKOUT = {".git", ".venv", "build", "data", "dist"}


def run_page(path: Path, *, slow: bool, pictures: bool = False, output: IO[bytes] | None = None) -> int:
    """Runs a page in namespaces of its own where the system allows it, and writes the transcript to `output`."""
    options = [*(["--slow"] if slow else []), *(["--pictures"] if pictures else [])]
    arguments = [sys.executable, "-m", "tests.docs.runner", "--inside", str(path), *options]
    place = namespace_command()
    # The page ends when its standard input closes, which happens however this process ends.
    process = subprocess.Popen(
        [*(place or []), *arguments, *(["--namespace"] if place else [])],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    with process:
        return process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.runner", description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--slow", action="store_true", help="also the blocks that are marked as slow")
    parser.add_argument("--pictures", action="store_true", help="keep the SVG files of a page in pictures/ beside it")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--namespace", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return run_inside(options.pages[0], options)
    status = 0
    for path in options.pages:
        status = run_page(path.resolve(), slow=options.slow, pictures=options.pictures) or status
    return status


def run_inside(path: Path, options: argparse.Namespace) -> int:
    threading.Thread(target=exit_with_parent, daemon=True).start()
    try:
        page = parse(path)
        with contextlib.nullcontext() if options.namespace else exclusive(path.read_text()):
            if options.namespace:
                bring_loopback_up()
            run_blocks(page, slow=options.slow, pictures=options.pictures)
    except PortTaken as error:
        print(f"not run: {error}")
        return SKIPPED
    except (Failed, PageError) as error:
        print(f"FAILED {path}: {error}")
        return 1
    return 0


def exit_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


def run_blocks(page: Page, *, slow: bool, pictures: bool) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ottla-docs-", ignore_cleanup_errors=True) as scratch,
        contextlib.ExitStack() as closing,
    ):
        directory = Path(scratch).resolve() / "page"
        directory.mkdir()
        if "make " in "".join(block.text for block in page.blocks if block.language == "console"):
            make_checkout(directory)
        terminal = Terminal(directory)
        closing.callback(terminal.kill_servers)
        runner = Runner(page, directory, terminal, slow=slow)
        closing.callback(runner.close)
        for block in page.blocks:
            try:
                runner.run(block)
            except Failed as error:
                output = terminal.server_output()
                raise Failed(f"line {block.line}: {error}\n{output}") from None
        terminal.stop_servers()
        for picture in directory.glob("*.svg") if pictures else ():
            (page.path.parent / "pictures").mkdir(exist_ok=True)
            shutil.copy(picture, page.path.parent / "pictures")


def make_checkout(directory: Path) -> None:
    """Links to the entries of the project. The stamps of `.venv` are new: `make` must not install into it."""
    for entry in ROOT.iterdir():
        if entry.name not in NOT_IN_CHECKOUT:
            (directory / entry.name).symlink_to(entry)
    virtual = directory / ".venv"
    virtual.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if entry.name not in STAMPS:
            (virtual / entry.name).symlink_to(entry)
    for stamp in STAMPS:
        (virtual / stamp).touch()


class Runner:
    """Runs the blocks of one page."""

    def __init__(self, page: Page, directory: Path, terminal: Terminal, *, slow: bool) -> None:
        self._page = page
        self._directory = directory
        self._terminal = terminal
        self._interpreter: Interpreter | None = None
        self._slow = slow

    def run(self, block: Block) -> None:
        reason = block.not_run.get("") or (None if self._slow else block.slow.get(""))
        if reason is not None:
            self._say(block.line, f"not run: {reason}")
            return
        if block.stop:
            self._terminal.stop_servers()
        for hidden in block.before:
            self._run_command(Command(text=hidden, output="", line=block.line))
        if (name := block.file_name) is not None:
            self._say(block.line, f"writes {name}")
            file = self._directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text + "\n")
        elif block.language == "console":
            self._run_console(block)
        elif block.language == "python":
            self._run_python(block)
        elif block.language == "sh":
            self._run_command(Command(text=block.text, output=block.output or "", line=block.line))

    def close(self) -> None:
        if self._interpreter is not None:
            self._interpreter.close()

    def _run_console(self, block: Block) -> None:
        left_out = {**block.not_run, **({} if self._slow else block.slow)}
        for command in block.commands():
            reason = next((why for begin, why in left_out.items() if command.text.startswith(begin)), None)
            if reason is not None:
                self._say(command.line, f"{command.text}: not run: {reason}")
                continue
            if command.text.startswith(tuple(block.interrupt)):
                command = replace(command, output="...\n^C")
            self._run_command(command)
            if block.alternatives:
                self._terminal.stop_servers()

    def _run_command(self, command: Command) -> None:
        began = time.monotonic()
        self._terminal.run(command)
        self._say(command.line, f"$ {command.text}  ({time.monotonic() - began:.1f} s)")

    def _run_python(self, block: Block) -> None:
        if self._interpreter is None:
            self._interpreter = Interpreter(self._directory)
        began = time.monotonic()
        self._interpreter.run(f"{self._page.name}, line {block.line}", block.text, block.output)
        self._say(block.line, f"Python  ({time.monotonic() - began:.1f} s)")

    def _say(self, line: int, text: str) -> None:
        print(f"{self._page.name}:{line}: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
