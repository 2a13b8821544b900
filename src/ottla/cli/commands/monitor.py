"""`ottla monitor`: checks a cluster end to end, and rates the lag of its groups and mirrors."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.failures import sentence_of
from ottla.cli.mirror_files import read_mirror_file
from ottla.cli.output import Output, counted, duration, json_fields, say_wrong
from ottla.cli.session import (
    Session,
    cluster_options,
    json_option,
    parsed_file,
    pause,
    run_async,
    stop_signals,
)
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError

if TYPE_CHECKING:
    from ottla.monitor.group_watch import GroupStatus
    from ottla.monitor.mirror_watch import MirrorStatus
    from ottla.monitor.probe import Finding
    from ottla.monitor.report import MonitorReport

__all__ = ["monitor"]

T = TypeVar("T")


@click.group(cls=VerbGroup, default="run", verbs={}, help=COMMANDS["monitor"].help)
def monitor() -> None:
    """The verbs are below."""


def _metrics_options(function: Callable[..., Any]) -> Callable[..., Any]:
    address = click.option(
        "--metrics-host", default="127.0.0.1", metavar="ADDRESS", help="[default: 127.0.0.1, this machine alone]"
    )
    port = click.option("--metrics-port", type=click.IntRange(0, 65_535), metavar="PORT", help="Serve /metrics here.")
    return port(address(function))


@monitor.command(
    help="Send numbered records through every broker, read them back, and count what is lost, doubled, out of order or "
    "late. Runs until Ctrl-C, or for some seconds. An outage is told while it lasts. The exit code is 1 if a record "
    "was lost, doubled or out of order. `ottla monitor` is the same."
)
@click.option("--seconds", type=click.FloatRange(0, min_open=True), metavar="N", help="End after this time.")
@click.option("-t", "--topic", default="ottla-monitor", metavar="TOPIC", help="[default: ottla-monitor]")
@click.option("--interval-ms", type=click.IntRange(1), default=100, metavar="MS", help="Per partition. [default: 100]")
@click.option(
    "--outage-after", type=click.FloatRange(0.1), default=3.0, metavar="S", help="An answer may take.  [default: 3]"
)
@click.option(
    "--lost-after", type=click.FloatRange(0.1), default=30.0, metavar="S", help="A read may take.  [default: 30]"
)
@_metrics_options
@cluster_options
def run(
    session: Session,
    seconds: float | None,
    topic: str,
    interval_ms: int,
    outage_after: float,
    lost_after: float,
    metrics_host: str,
    metrics_port: int | None,
) -> int:
    from ottla.monitor.probe import Probe, ProbeSettings
    from ottla.monitor.report import prometheus_text, report

    output = session.output
    settings = ProbeSettings(
        topic=topic,
        group=topic,
        interval_seconds=interval_ms / 1000,
        outage_after_seconds=outage_after,
        lost_after_seconds=lost_after,
    )

    async def whole() -> MonitorReport:
        stopped = stop_signals()
        probe = Probe(session.settings, settings, lambda finding: _tell(output, finding))

        def on_ready() -> None:
            brokers = len(set(probe.leaders.values()))
            scope = f"{counted(brokers, 'broker')}, {counted(len(probe.leaders), 'partition')} of {topic}"
            click.echo(f"ready {scope}", err=output.as_json)

        async with _served(metrics_host, metrics_port, lambda: prometheus_text(probe, time.monotonic())):
            await probe.run(seconds=seconds, is_stopped=lambda: bool(stopped), on_ready=on_ready)
        return report(probe, time.monotonic())

    summary = run_async(whole())
    _show(output, summary)
    return 0 if summary.is_clean else 1


@monitor.command(
    help="Judge the lag of groups by its movement, as Burrow does: OK, WARNING (grows), REWIND (went back), STALLED "
    "(members that do not move), STOPPED (no members). The time is the age of the first unread record."
)
@click.option("-g", "--group", "pattern", default="", metavar="REGEX", help="Only groups that match.  [default: all]")
@click.option("-i", "--interval", type=click.FloatRange(0.1), default=5.0, metavar="S", help="[default: 5]")
@click.option("--window", type=click.IntRange(3), default=10, metavar="N", help="Samples that count.  [default: 10]")
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="End after this many samples.")
@_metrics_options
@cluster_options
def lag(
    session: Session,
    pattern: str,
    interval: float,
    window: int,
    count: int | None,
    metrics_host: str,
    metrics_port: int | None,
) -> int:
    from ottla.monitor.group_watch import GroupWatch, groups_text

    try:
        re.compile(pattern)
    except re.error as error:
        raise click.UsageError(f"--group {pattern!r} is no regular expression: {error}.") from None

    async def work(admin: AdminClient) -> None:
        stopped = stop_signals()
        watch = GroupWatch(admin, pattern=pattern, window=window)
        newest: list[GroupStatus] = []
        async with _served(metrics_host, metrics_port, lambda: groups_text(newest)):
            async for sample in _samples(session.output, watch.look, interval, count, stopped):
                newest[:] = sample or []
                if sample is not None:
                    _show_groups(session.output, newest)

    return session.run(work)


@monitor.command(
    help="Show how far mirrors are behind: the age of the newest heartbeat of each flow that has heartbeats here. With "
    "the properties file of a mirror, also how many records its targets do not have yet."
)
@click.option(
    "-c", "--config", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="The file of 'ottla mirror'."
)
@click.option("-i", "--interval", type=click.FloatRange(0.1), default=5.0, metavar="S", help="[default: 5]")
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="End after this many samples.")
@_metrics_options
@cluster_options
def mirrors(
    session: Session,
    config: str | None,
    interval: float,
    count: int | None,
    metrics_host: str,
    metrics_port: int | None,
) -> int:
    from ottla.monitor.mirror_watch import MirrorWatch, mirrors_text

    flows = () if config is None else read_mirror_file(config).flows

    async def work(admin: AdminClient) -> None:
        stopped = stop_signals()
        watch = MirrorWatch(admin, flows)
        newest: list[MirrorStatus] = []
        async with _served(metrics_host, metrics_port, lambda: mirrors_text(newest)):
            async for sample in _samples(session.output, watch.look, interval, count, stopped):
                newest[:] = sample or []
                if sample is not None:
                    _show_mirrors(session.output, newest)

    return session.run(work)


@monitor.command(
    help="Print rules for Prometheus from a file of service level objectives: recording rules, and alerts on how fast "
    "the error budget burns (docs/monitor.md)."
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def rules(file: str) -> int:
    from ottla.monitor.slo import read_objectives, rules_yaml

    click.echo(rules_yaml(parsed_file(file, read_objectives)), nl=False)
    return 0


@monitor.command(
    help="Push the values of metrics pages to a collector of OpenTelemetry (OTLP over HTTP), again and again. The page "
    "of a node has the metrics that clients push to it as well."
)
@click.argument("pages", nargs=-1, required=True, metavar="URL...")
@click.option("--otlp", required=True, metavar="URL", help="The collector, such as http://localhost:4318.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="For the collector; may be repeated.")
@click.option("-i", "--interval", type=click.FloatRange(1), default=15.0, metavar="S", help="[default: 15]")
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="End after this many pushes.")
@json_option
def export(
    pages: tuple[str, ...], otlp: str, headers: tuple[str, ...], interval: float, count: int | None, as_json: bool
) -> int:
    from ottla.monitor.otlp_export import Exporter

    for address in (*pages, otlp):
        if not address.startswith(("http://", "https://")):
            raise click.UsageError(f"{address!r} is no address: write http://HOST:PORT/...")
    output = Output(as_json=as_json)
    exporter = Exporter(list(pages), otlp, dict(header.partition("=")[::2] for header in headers))

    async def work() -> None:
        stopped = stop_signals()
        pushes = 0
        while not stopped and (count is None or pushes < count):
            if pushes:
                await pause(interval, stopped)
            pushes += 1
            for result in await asyncio.to_thread(exporter.export):
                output.emit(json_fields(result))
                if result.error:
                    output.failed = True
                    say_wrong(result.error)
                else:
                    output.say(f"{result.page}: {counted(result.points, 'value')}")

    run_async(work())
    return output.exit_code


async def _samples(
    output: Output, look: Callable[[], Awaitable[T]], interval: float, count: int | None, stopped: list[int]
) -> AsyncIterator[T | None]:
    """A sample per interval until a signal arrives. None for a sample that failed, except the first, which raises."""
    for number in itertools.count() if count is None else range(count):
        if number:
            await pause(interval, stopped)
        if stopped:
            return
        try:
            sample = await look()
        except (KafkaError, ClientError, OSError) as error:
            if not number:
                raise
            output.failed = True
            say_wrong(sentence_of(error))
            yield None
        else:
            yield sample


@asynccontextmanager
async def _served(host: str, port: int | None, pages: Callable[[], Iterable[str]]) -> Any:
    """The metrics endpoint, if a port is configured."""
    from ottla.monitor.endpoint import serve_metrics

    if port is None:
        yield
        return
    async with await serve_metrics(host, port, pages) as server:
        bound = server.sockets[0].getsockname()[1]
        click.echo(f"metrics on http://{host}:{bound}/metrics", err=True)
        yield


def _tell(output: Output, finding: Finding) -> None:
    moment = time.strftime("%H:%M:%S")
    place = f"partition {finding.partition} (broker {finding.leader})"
    output.say(f"{moment} {finding.event}: {place} {finding.text}")
    output.emit({"time": int(time.time() * 1000), **json_fields(finding)})


def _show(output: Output, summary: MonitorReport) -> None:
    output.table(
        ("PARTITION", "BROKER", "PRODUCED", "CONSUMED", "FAILED", "LOST", "DOUBLED", "REORDERED", "P50", "P99", "MAX"),
        [
            (
                row.partition,
                row.leader,
                row.produced,
                row.consumed,
                row.failed,
                row.lost,
                row.duplicated,
                row.reordered,
                duration(row.latency.p50_ms),
                duration(row.latency.p99_ms),
                duration(row.latency.max_ms),
            )
            for row in summary.partitions
        ],
        right=range(11),
    )
    output.say()
    output.say(
        f"{summary.produced} produced, {summary.consumed} consumed, {summary.lost} lost, {summary.duplicated} doubled, "
        f"{summary.reordered} out of order in {summary.seconds:.0f} s"
    )
    output.say(
        f"availability {summary.availability * 100:.3f} %, {counted(summary.outages, 'outage')} "
        f"({summary.outage_seconds:.1f} s), end to end p50 {duration(summary.latency.p50_ms)}, "
        f"p99 {duration(summary.latency.p99_ms)}, commit p99 {duration(summary.commit_latency.p99_ms)}"
    )
    if output.as_json:
        # Programs read one line, so the JSON is one line on a terminal, too.
        import json

        click.echo(json.dumps(json_fields(summary)))


def _show_groups(output: Output, groups: list[GroupStatus]) -> None:
    output.emit([{**json_fields(row), "status": str(row.status)} for row in groups])
    output.table(
        ("GROUP", "STATE", "STATUS", "LAG", "TIME", "WORST PARTITION", "ITS LAG"),
        [
            (row.group, row.state, row.status, row.lag, _seconds(row.lag_seconds), *_worst_partition(row))
            for row in sorted(groups, key=lambda row: (-row.status, -row.lag))
        ],
        right=(3, 4, 6),
        none="No group has committed offsets.",
    )


def _show_mirrors(output: Output, mirrors: list[MirrorStatus]) -> None:
    output.emit([json_fields(row) for row in mirrors])
    output.table(
        ("SOURCE", "TARGET", "LAST HEARTBEAT", "RECORDS BEHIND", "WORST PARTITION"),
        [(row.source, row.target, _seconds(row.lag_seconds), row.lag_records, row.worst_partition) for row in mirrors],
        right=(2, 3),
        none="The cluster has no heartbeats of mirrors.",
    )


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else duration(seconds * 1000)


def _worst_partition(group: GroupStatus) -> tuple[str, int]:
    chosen = max(group.partitions, key=lambda row: (row.status, row.lag))
    return f"{chosen.topic}-{chosen.partition}", chosen.lag
