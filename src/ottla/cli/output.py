"""Output of commands: tables for people, JSON for programs, progress on standard error.

On a terminal a table fits its width and long cells fold; in a pipe it is as wide as it needs to be, so that `grep` and
`awk` see whole lines.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition, Uuid

__all__ = ["Output", "ago", "counted", "duration", "json_fields", "numbers", "say_wrong", "size"]

_PIPE_WIDTH = 100_000


class Output:
    """The output of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.failed = False

    def say(self, text: str = "") -> None:
        """Prints a line for people; prints nothing in JSON mode."""
        if not self.as_json:
            print(text)

    def emit(self, value: Any) -> None:
        """Prints the answer as JSON; prints nothing in table mode."""
        if self.as_json:
            json.dump(value, sys.stdout, default=_plain, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
            print()

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        right: Iterable[int] = (),
        fold: Iterable[int] = (),
        seldom: Iterable[int] = (),
        none: str = "",
    ) -> None:
        """A table for people; columns in `right` are right-aligned, columns in `fold` wrap when the terminal is narrow.

        Columns in `seldom` are omitted on a terminal if they are empty in all rows. `none` is printed instead of a
        table without rows; in a pipe it goes to standard error, and the header stays.
        """
        if self.as_json:
            return
        cells = [[_cell(value) for value in row] for row in rows]
        if none and not cells:
            self.say_none(none)
            if sys.stdout.isatty():
                return
        empty = {number for number in seldom if sys.stdout.isatty() and all(row[number] == "-" for row in cells)}
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        aligned, folding = set(right), set(fold)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
        for number, name in enumerate(columns):
            if number in empty:
                continue
            table.add_column(
                name,
                justify="right" if number in aligned else "left",
                overflow="fold",
                no_wrap=number not in folding,
            )
        for row in cells:
            table.add_row(*[Text(text) for number, text in enumerate(row) if number not in empty])
        console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False, soft_wrap=False)
        with console.capture() as capture:
            console.print(table)
        # Cells are padded to the width of their column: trailing spaces are removed.
        print("\n".join(line.rstrip() for line in capture.get().splitlines()))

    def say_none(self, text: str) -> None:
        """Prints that the list is empty. In a pipe the line goes to standard error, so that programs do not read it."""
        if not self.as_json:
            print(text, file=sys.stdout if sys.stdout.isatty() else sys.stderr)

    def has_room_for(self, width: int) -> bool:
        """Whether a line of this width fits the terminal; in a pipe every line fits."""
        return not sys.stdout.isatty() or width <= os.get_terminal_size(sys.stdout.fileno()).columns

    def complain(self, name: str, error: KafkaError | Exception) -> None:
        """Reports the failure of one of several items on standard error; the exit code becomes 1."""
        from ottla.cli.failures import sentence_of

        self.failed = True
        sentence = sentence_of(error)
        say_wrong(sentence if name in sentence else f"{name}: {sentence}")

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Any]:
        """A bar on standard error while something long runs; yields `advance(steps)`. Nothing in a pipe."""
        if self.as_json or not sys.stderr.isatty():
            yield lambda _steps=1: None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(label, total=total)
            yield lambda steps=1: progress.advance(task, steps)

    @property
    def exit_code(self) -> int:
        return 1 if self.failed else 0


def say_wrong(sentence: str) -> None:
    """Prints an error on standard error, wrapped at word boundaries on a terminal."""
    text = f"ottla: {sentence}"
    if sys.stderr.isatty():
        import textwrap

        width = max(os.get_terminal_size(sys.stderr.fileno()).columns, 40)
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr, flush=True)


def counted(count: int, noun: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def numbers(values: Iterable[int]) -> str:
    """Node ids as Kafka's tools write them."""
    return ",".join(map(str, values))


def size(count: int) -> str:
    """Bytes for people."""
    if count < 0:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{int(value)} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def ago(timestamp_ms: int) -> str:
    """A past time for people: `5.0 s ago`."""
    return "-" if timestamp_ms < 0 else f"{duration(max(time.time() * 1000 - timestamp_ms, 0))} ago"


def duration(milliseconds: float) -> str:
    """A time span for people."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{int(milliseconds)} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ",".join(map(str, value)) or "-"
    return str(value)


def json_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass or a named tuple for JSON, in camel case as in all output; nested ones alike."""
    names = [field.name for field in fields(value)] if is_dataclass(value) else value._fields
    return {_camel_case(name): _nested(getattr(value, name)) for name in names}


def _nested(value: Any) -> Any:
    if isinstance(value, TopicPartition):
        return str(value)
    if hasattr(value, "_fields") or (is_dataclass(value) and not isinstance(value, type)):
        return json_fields(value)
    if isinstance(value, list | tuple):
        return [_nested(element) for element in value]
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain(value: Any) -> Any:
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, KafkaError):
        return {"error": value.code.name, "message": value.message}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if is_dataclass(value) and not isinstance(value, type):
        return json_fields(value)
    raise TypeError(f"{type(value).__name__} has no place in JSON")
