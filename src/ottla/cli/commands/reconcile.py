"""`ottla reconcile`: are all records of a pipeline there, once, in time?"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ottla.cli.logic.offset_times import parse_moment
from ottla.cli.output import Output, json_fields
from ottla.cli.session import Session, cluster_options, run_async
from ottla.client.settings import parse_bootstrap

if TYPE_CHECKING:
    from ottla.monitor.reconcile.books import StageBooks
    from ottla.monitor.reconcile.comparison import BucketRow, Difference

__all__ = ["reconcile"]

# Buckets that are shown; more differences are counted in the totals.
ROWS_MAX = 50


@click.command(
    help="Count the records of every stage of a pipeline by time, and say where records are missing, doubled or late. "
    "Stages are topics, the first is what the others are compared with. Records with stamps "
    "(docs/monitor.md) are compared one by one, others by their count. The exit code is 1 if there is a difference."
)
@click.option(
    "-s", "--stage", "stages", multiple=True, required=True, metavar="NAME=TOPIC[@HOST:PORT]", help="In order."
)
@click.option("--produced", is_flag=True, help="Begin with what producers have counted (CountingInterceptor).")
@click.option("--bucket", default="1m", metavar="TIME", help="Length of a bucket, such as 10s.  [default: 1m]")
@click.option("--from", "begin", default="1h", metavar="TIME", help="A date, or so long ago.  [default: 1h]")
@click.option("--settle", default="10s", metavar="TIME", help="Leave out what is newer.  [default: 10s]")
@click.option("--late-after", default="1m", metavar="TIME", help="Later than this is late.  [default: 1m]")
@cluster_options
def reconcile(
    session: Session, stages: tuple[str, ...], produced: bool, bucket: str, begin: str, settle: str, late_after: str
) -> int:
    from ottla.monitor.reconcile.books import StageBooks
    from ottla.monitor.reconcile.comparison import compare, summarize
    from ottla.monitor.reconcile.counts import BUCKET_MS
    from ottla.monitor.reconcile.reading import parse_stage, read_counts, read_log

    chosen = [parse_stage(text) for text in stages]
    now_ms = int(time.time() * 1000)
    bucket_ms, late_after_ms = _duration_ms("--bucket", bucket), _duration_ms("--late-after", late_after)
    if bucket_ms <= 0:
        raise click.UsageError("--bucket must be longer than nothing.")
    if produced and bucket_ms % BUCKET_MS:
        raise click.UsageError("Producers count in buckets of 10s: with --produced, --bucket is a multiple of it.")
    from_ms = parse_moment(begin, now_ms=now_ms)
    # Only whole buckets are compared: in an incomplete bucket, the stages may have read different numbers of records.
    from_ms = max(from_ms + -from_ms % bucket_ms, 0)
    to_ms = now_ms - _duration_ms("--settle", settle)
    to_ms -= to_ms % bucket_ms

    async def read() -> list[StageBooks]:
        books = []
        if produced:
            counted = StageBooks("produced", bucket_ms, late_after_ms)
            await read_counts(session.settings, "produced", chosen[0].topic, counted)
            books.append(counted)
        with session.output.progress("reading", None) as advance:
            for stage in chosen:
                client = session.settings
                if stage.bootstrap is not None:
                    client = replace(client, bootstrap_servers=parse_bootstrap(stage.bootstrap, option="--stage"))
                stage_books = StageBooks(stage.name, bucket_ms, late_after_ms)
                await read_log(client, stage.topic, stage_books, from_ms, advance)
                books.append(stage_books)
        return books

    rows = compare(run_async(read()), from_ms=from_ms, to_ms=to_ms)
    totals = summarize(rows)
    _show(session.output, rows, totals)
    return 0 if all(total.is_clean for total in totals) else 1


def _duration_ms(option: str, text: str) -> int:
    """A duration such as 90s or PT1M30S."""
    try:
        return -parse_moment(text, now_ms=0)
    except ValueError:
        raise click.UsageError(f"{option}={text!r} is no duration; write 10s, 5m or 1h30m.") from None


def _show(output: Output, rows: list[BucketRow], totals: list[Difference]) -> None:
    output.emit(
        {
            "isClean": all(total.is_clean for total in totals),
            "stages": [json_fields(total) for total in totals],
            "buckets": [json_fields(row) for row in rows],
        }
    )
    wrong = [row for row in rows if not row.is_clean]
    output.table(
        ("FROM", "STAGE", "RECORDS", "MISSING", "DOUBLED", "LATE", "SOME OF THE MISSING"),
        [
            (_moment(row.bucket_ms), *_cells(stage))
            for row in wrong[:ROWS_MAX]
            for stage in row.stages
            if not stage.is_clean or stage is row.stages[0]
        ]
        + [("total", *_cells(total)) for total in totals],
        right=(2, 3, 4, 5),
        none="No stage has records in this time.",
    )
    if len(wrong) > ROWS_MAX:
        output.say(f"{len(wrong) - ROWS_MAX} more buckets with differences are in the totals.")


def _cells(stage: Difference) -> tuple[object, ...]:
    return stage.stage, stage.records, stage.missing, stage.doubled, stage.late, " ".join(stage.named)


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
