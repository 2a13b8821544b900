"""`make demo`: starts a node, Spark and the pipeline, shows them live for a while, and prints the results."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live

import ottla.spark
import ottla.testing
from examples.clickstream import ending, pipeline
from examples.clickstream.watch import LOOK_SECONDS, Watch
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.work.spark_engine import SparkEngine
from ottla.connect.worker import Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main"]

PARTITIONS = 2
FILES = "clicks"
DRAIN_SECONDS_MAX = 60.0
# The stream starts then, even if the first click is not in a file yet.
WARM_UP_SECONDS_MAX = 60.0
DRAINED_LOOKS = 4
# The number of characters of Spark's output that are shown after a failure.
SAID_BYTES = 4000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.clickstream", description=__doc__)
    parser.add_argument("--seconds", type=float, default=45.0, help="for how long clicks are made (default: 45)")
    parser.add_argument("--rate", type=int, default=4000, help="clicks per second (default: 4000)")
    parser.add_argument(
        "--output", type=Path, default=Path("build/demo"), help="for the Parquet files and the picture (./build/demo)"
    )
    parser.add_argument("--keep", action="store_true", help="keep node and Connect running at the end, until Ctrl-C")
    options = parser.parse_args()
    if (refusal := ending.remove_former_files(options.output / FILES)) is not None:
        parser.error(refusal)
    # The table shows the progress; of the log only failures matter here.
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as scratch, ottla.testing.cluster() as node:
        try:
            return asyncio.run(run(node.bootstrap, Path(scratch), options))
        except Exception:
            spark_log = Path(scratch) / "spark.log"
            print(spark_log.read_text(errors="replace")[-SAID_BYTES:] if spark_log.exists() else "", file=sys.stderr)
            raise


async def run(bootstrap: str, scratch: Path, options: argparse.Namespace) -> int:
    console = Console()
    stopped = stopped_by_signals()
    console.print(f"A node answers at [bold]{bootstrap}[/]. Spark starts ...")
    database, parquet = scratch / "users.db", options.output / FILES
    pipeline.make_users(database)
    await make_topics(bootstrap)
    with standard_error_in(scratch / "spark.log"):
        spark = await asyncio.to_thread(start_spark)
    console.print("Spark warms up ...")
    warm = asyncio.create_task(asyncio.to_thread(pipeline.warm_up, spark, bootstrap, database, scratch / "warm-up"))
    # The worker shares the session with the query; otherwise it would create a session of its own.
    config = WorkerConfig(pipeline.worker_settings(bootstrap), distributed=True)
    async with Worker(config, engine=partial(SparkEngine, spark=spark)) as worker:
        console.print(f"Connect answers at [bold]{worker.url}[/]")
        query = await asyncio.to_thread(pipeline.enrich, spark, bootstrap, database, scratch / "checkpoint")
        await worker.create(pipeline.files(parquet))
        await warm
        await send_first_click(bootstrap, parquet)
        async with Watch(bootstrap, (pipeline.CLICKS, pipeline.ENRICHED), parquet, rate=options.rate) as watch:
            await worker.create(pipeline.generator(options.rate))
            await follow(console, watch, stopped, seconds=options.seconds)
            assert worker.herder is not None
            await worker.herder.connectors.stop("clicks")
            await drain(console, watch)
        if not options.keep:
            await asyncio.to_thread(query.stop)
        status = await asyncio.to_thread(finish, console, spark, parquet, options)
        if options.keep:
            console.print(ending.places_to_look(bootstrap, worker.url), soft_wrap=True, highlight=False)
            await stopped_by_signals().wait()
            await asyncio.to_thread(query.stop)
        return status


def start_spark() -> SparkSession:
    """Ctrl-C reaches every process of a terminal; Spark's processes inherit that it is ignored."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    return ottla.spark.session("clickstream", settings=pipeline.SPARK)


@contextmanager
def standard_error_in(path: Path) -> Iterator[None]:
    """Redirects the output of processes started meanwhile: Spark logs much when it is stopped."""
    standard_error = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)


def stopped_by_signals() -> asyncio.Event:
    """Set by the first Ctrl-C; the second ends the program at once."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        stopped.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return stopped


async def make_topics(bootstrap: str) -> None:
    async with AdminClient(ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))) as admin:
        topics = [NewTopic(name=name, partitions=PARTITIONS) for name in (pipeline.CLICKS, pipeline.ENRICHED)]
        await admin.topics.create(topics)


async def send_first_click(bootstrap: str, parquet: Path) -> None:
    """Takes one click through the query and the sink: their first batches need seconds for code that is loaded once."""
    key, value = pipeline.first_click()
    async with Producer(ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))) as producer:
        await producer.send_and_wait(pipeline.CLICKS, value, key)
    end = time.monotonic() + WARM_UP_SECONDS_MAX
    while not any(parquet.glob("*/*.parquet")) and time.monotonic() < end:
        await asyncio.sleep(LOOK_SECONDS / 5)


async def follow(console: Console, watch: Watch, stopped: asyncio.Event, *, seconds: float) -> None:
    """Shows the progress until the time is over or Ctrl-C is pressed."""
    began = shown_at = time.monotonic()
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while not stopped.is_set() and (spent := time.monotonic() - began) < seconds:
            live.update(watch.table(f"{spent:.0f} of {seconds:.0f} s; Ctrl-C ends it early"), refresh=True)
            if not console.is_terminal and time.monotonic() - shown_at > 3:
                shown_at = time.monotonic()
                print(f"{spent:3.0f} s  {watch.line()}", flush=True)
            await asyncio.sleep(0.5)
    if not console.is_terminal:
        print()
    if watch.first_file_seconds is not None:
        console.print(f"The first clicks were in Parquet files {watch.first_file_seconds:.1f} s after the start.")


async def drain(console: Console, watch: Watch) -> None:
    """Waits for the clicks that were generated before the generator stopped."""
    end = time.monotonic() + DRAIN_SECONDS_MAX
    looks = 0
    with console.status("the generator has stopped; the rest of the pipeline catches up"):
        # A transaction may have been committed just now, so a single check is not enough.
        while looks < DRAINED_LOOKS and time.monotonic() < end:
            looks = looks + 1 if watch.is_drained else 0
            await asyncio.sleep(LOOK_SECONDS)


def finish(console: Console, spark: SparkSession, parquet: Path, options: argparse.Namespace) -> int:
    if not any(parquet.glob("*/*.parquet")):
        console.print("It was ended before the first clicks were in files.")
        return 1
    ending.register_clicks(spark, parquet)
    console.print(ending.clicks_by_region(spark))
    counts = ending.count_clicks(spark)
    right = counts["clicks"] == counts["different"] == counts["made"] == counts["enriched"]
    console.print(
        f"{counts['made']:,} clicks were made, {counts['clicks']:,} are in the files, {counts['different']:,} of them "
        f"different, {counts['enriched']:,} with their user: "
        + ("[green]each exactly once[/]" if right else "[red]WRONG")
    )
    paths = [options.output / "clickstream.png", options.output / "clickstream.svg"]
    ending.draw(ending.stage_points(spark), paths, caption=f"{options.rate:,} clicks/s were asked for.")
    console.print(f"Throughput and latency: {paths[0]}, {paths[1].name}")
    console.print(ending.queries_to_paste(parquet), soft_wrap=True, highlight=False, markup=False)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
