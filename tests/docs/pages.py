"""Parses a page of the documentation: its fenced blocks, and the comments above them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["RUNNABLE", "Block", "Command", "Page", "PageError", "pages", "parse"]

ROOT = Path(__file__).resolve().parents[2]
RUNNABLE = ("console", "python", "sh")
FENCE = re.compile(r"^```(\S*)\s*$")
COMMENT = re.compile(r"^<!-- (.*) -->$")
DIRECTIVE = re.compile(r"^(not run|slow|before|interrupt|stop|alternatives)(?: \(([^)]*)\))?(?:: (.*))?$")
# The first line of a block that is a file: a comment with the name of the file.
FILE_NAME = re.compile(r"^(?:#|//|--) ([\w./-]+\.\w+)$")
LIST_ITEM = re.compile(r"^\s*([-*]|\d+\.) ")


class PageError(Exception):
    """A page whose blocks or comments cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a console block, with the output that the page shows."""

    text: str
    output: str
    line: int


@dataclass(slots=True, kw_only=True)
class Block:
    """A fenced block. `not_run` and `slow` map a command, or "" for the whole block, to the reason."""

    language: str
    text: str
    line: int
    not_run: dict[str, str] = field(default_factory=dict)
    slow: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    # Commands that are ended with Ctrl-C after their first output.
    interrupt: list[str] = field(default_factory=list)
    stop: bool = False
    alternatives: bool = False
    # The output of the block above, shown in a block of its own.
    is_output: bool = False
    # The `text` block below, for a block that has one.
    output: str | None = None

    @property
    def file_name(self) -> str | None:
        first, _, _ = self.text.partition("\n")
        named = FILE_NAME.match(first)
        return named.group(1) if named else None

    @property
    def is_accounted_for(self) -> bool:
        """Whether the block is run, written to a file, compared as output, or has a reason not to be."""
        return (
            self.language in RUNNABLE or self.file_name is not None or self.is_output or bool(self.not_run.get("", ""))
        )

    def commands(self) -> list[Command]:
        """The commands of a console block: lines after `$ `, continued after a backslash."""
        parsed: list[Command] = []
        text: list[str] = []
        output: list[str] = []
        began = 0

        def end() -> None:
            if text:
                parsed.append(Command(text="\n".join(text), output="\n".join(output), line=began))

        for number, line in enumerate(self.text.splitlines(), self.line + 1):
            if line.startswith("$ "):
                end()
                text, output, began = [line[2:]], [], number
            elif text and not output and text[-1].endswith("\\"):
                text.append(line.removeprefix("> "))
            elif text:
                output.append(line)
            else:
                raise PageError(f"line {number}: a console block begins with a command after `$ `")
        end()
        return parsed


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    blocks: list[Block]
    # Lines of code blocks by indentation, which no test can run.
    indented: list[int]

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix() if self.path.is_relative_to(ROOT) else self.path.name

    @property
    def is_slow(self) -> bool:
        """Whether the page has a block or a command that only `make docs-test` runs."""
        return any(block.slow for block in self.blocks)

    @property
    def has_quick_blocks(self) -> bool:
        return any(
            block.language in RUNNABLE and "" not in block.slow and "" not in block.not_run for block in self.blocks
        )


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "learn").glob("*.md"))]


def parse(path: Path) -> Page:
    lines = path.read_text().splitlines()
    blocks: list[Block] = []
    indented: list[int] = []
    number = 0
    while number < len(lines):
        opened = FENCE.match(lines[number])
        if opened is None:
            if is_indented_code(lines, number):
                indented.append(number + 1)
            number += 1
            continue
        end = next((at for at in range(number + 1, len(lines)) if lines[at] == "```"), None)
        if end is None:
            raise PageError(f"{path.name}:{number + 1}: the block has no end")
        block = Block(language=opened.group(1), text="\n".join(lines[number + 1 : end]), line=number + 1)
        read_comments(block, lines, path)
        attach_output(blocks, block, lines)
        blocks.append(block)
        number = end + 1
    return Page(path=path, blocks=blocks, indented=indented)


def is_indented_code(lines: list[str], number: int) -> bool:
    """Four spaces after an empty line are code, except within a list."""
    if not lines[number].startswith("    ") or number == 0 or lines[number - 1].strip():
        return False
    before = next((line for line in reversed(lines[:number]) if line.strip()), "")
    return not LIST_ITEM.match(before) and not before.startswith("  ")


def read_comments(block: Block, lines: list[str], path: Path) -> None:
    """The comments directly above a block, one on each line."""
    at = block.line - 2
    comments: list[str] = []
    while at >= 0 and (comment := COMMENT.match(lines[at])):
        comments.insert(0, comment.group(1))
        at -= 1
    for comment in comments:
        directive = DIRECTIVE.match(comment)
        if directive is None:
            raise PageError(f"{path.name}:{block.line}: not understood: <!-- {comment} -->")
        apply(block, *directive.groups(), where=f"{path.name}:{block.line}")


def apply(block: Block, kind: str, command: str | None, rest: str | None, *, where: str) -> None:
    if command and not any(block_command.text.startswith(command) for block_command in block.commands()):
        raise PageError(f"{where}: no command begins with {command!r}")
    if kind in ("not run", "slow"):
        if not rest:
            raise PageError(f"{where}: `{kind}` needs a reason")
        reasons = block.not_run if kind == "not run" else block.slow
        reasons[command or ""] = rest
    elif kind == "before":
        if not rest:
            raise PageError(f"{where}: `before` needs a command")
        block.before.append(rest)
    elif kind == "interrupt":
        if not command:
            raise PageError(f"{where}: `interrupt` needs a command in parentheses")
        block.interrupt.append(command)
    elif kind == "stop":
        block.stop = True
    else:
        block.alternatives = True


def attach_output(blocks: list[Block], block: Block, lines: list[str]) -> None:
    """A `text` block that follows a block of code is the output of that code; prose may stand between them."""
    if block.language != "text" or not blocks or block.not_run:
        return
    above = blocks[-1]
    if above.language in ("python", "sh") and above.file_name is None and above.output is None:
        above.output = block.text
        block.is_output = True
