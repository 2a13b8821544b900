"""`ottla top`: brokers, hottest topics and slowest groups, live."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from ottla.cli.logic.top_sample import View, compare, take_sample
from ottla.cli.output import json_fields, size
from ottla.cli.session import Session, cluster_options
from ottla.client.admin import AdminClient

__all__ = ["top"]

NAME_WIDTH_MAX = 36


@click.command(help="Show brokers, topics and groups live; Ctrl-C ends it.")
@click.option("-i", "--interval", type=click.FloatRange(0.2), default=2.0, metavar="S", help="[default: 2]")
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="End after this many updates.")
@click.option("--rows", type=click.IntRange(1), default=8, metavar="N", help="Topics and groups shown.  [default: 8]")
@cluster_options
def top(session: Session, interval: float, count: int | None, rows: int) -> int:
    live = sys.stdout.isatty() and not session.output.as_json
    pictures = count if count is not None else (None if live else 1)

    async def work(admin: AdminClient) -> None:
        await admin.connections.refresh([])
        before = await take_sample(admin)
        shown = 0
        with _screen(live) as update:
            while pictures is None or shown < pictures:
                await asyncio.sleep(interval)
                after = await take_sample(admin)
                view = compare(before, after)
                before = after
                shown += 1
                if session.output.as_json:
                    session.output.emit(json_fields(view))
                else:
                    update(_picture(view, rows))

    return session.run(work)


class _screen:  # noqa: N801
    """The alternate screen of the terminal, or plain printing in a pipe."""

    def __init__(self, live: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(width=None if live else 100, highlight=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False) if live else None

    def __enter__(self) -> Any:
        if self._live is None:
            return self._console.print
        self._live.start()
        return lambda picture: self._live.update(picture, refresh=True) if self._live is not None else None

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()


def _picture(view: View, rows: int) -> Any:
    from rich.console import Group
    from rich.text import Text

    return Group(
        _table(
            ("BROKER", "ADDRESS", "LEADS", "BEHIND", "RECORDS/S", "IN/S", "DATA", "FREE"),
            [
                (
                    str(row.broker),
                    row.address,
                    str(row.leads),
                    str(row.behind),
                    f"{row.records_per_second:.0f}",
                    size(int(row.bytes_per_second)),
                    size(row.data_bytes),
                    size(row.free_bytes),
                )
                for row in view.brokers
            ],
        ),
        Text(""),
        _table(
            ("TOPIC", "PARTITIONS", "RECORDS/S", "IN/S", "DATA"),
            [
                (
                    _short(row.topic),
                    str(row.partitions),
                    f"{row.records_per_second:.0f}",
                    size(int(row.bytes_per_second)),
                    size(row.data_bytes),
                )
                for row in view.topics[:rows]
            ],
        ),
        Text(""),
        _table(
            ("GROUP", "MEMBERS", "LAG", "RECORDS/S"),
            [
                (_short(row.group), str(row.members), str(row.lag), f"{row.records_per_second:.0f}")
                for row in view.groups[:rows]
            ],
        ),
    )


def _short(name: str) -> str:
    """The name, shortened in the middle if it is long, so that the numbers have room."""
    return name if len(name) <= NAME_WIDTH_MAX else f"{name[: NAME_WIDTH_MAX - 16]}…{name[-15:]}"


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(columns):
        is_text = number == 0 or name == "ADDRESS"
        table.add_column(name, justify="left" if is_text else "right", overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
