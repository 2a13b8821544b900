"""`ottla balance`: plans and executes an even distribution of replicas and leaders."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.balance.execute import Executor, ProducersSuffer, find_topic_ids, told_skips
from ottla.balance.goals import default_goals, named_goals
from ottla.balance.guard import TOPIC as PROBE_TOPIC
from ottla.balance.guard import LatencyGuard
from ottla.balance.journal import Journal
from ottla.balance.observe import observe, with_brokers, with_partitions
from ottla.balance.planner import Movement, Plan, make_plan
from ottla.balance.shortage import Shortage, find_shortages, named_brokers
from ottla.balance.steps import Step, Steps, make_steps, seconds_of
from ottla.cli.failures import Failure
from ottla.cli.logic.offset_times import parse_moment
from ottla.cli.logic.reassignment import format_plan
from ottla.cli.output import Output, counted, duration, json_fields, numbers, size
from ottla.cli.session import Session, cluster_options, confirm, pause, stop_signals, yes_option
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient

if TYPE_CHECKING:
    from ottla.balance.anomalies import Anomaly
    from ottla.balance.state import ClusterState

__all__ = ["balance"]

JOURNAL = "ottla-balance.json"
# The rows of a table; all movements are in the JSON.
ROWS_MAX = 40
# The partitions of a sentence.
PARTITIONS_SHOWN = 10
# Without a throttle: what a disk writes beside other work, for the estimate of time.
ESTIMATED_BYTES_PER_SECOND = 50_000_000


@click.group(cls=VerbGroup, default="plan", verbs={}, help=COMMANDS["balance"].help)
def balance() -> None:
    """The verbs are below."""


class _Wishes(NamedTuple):
    """What the plan is for."""

    drained: tuple[int, ...]
    dead: tuple[int, ...]
    added: tuple[str, ...]
    partitions: tuple[str, ...]
    goals: tuple[str, ...]
    sample_seconds: float


def _plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--sample", type=click.FloatRange(0), default=0.0, metavar="S", help="Measure traffic so long."),
        click.option("--goal", "goals", multiple=True, metavar="NAME", help="Only these goals.  [default: all]"),
        click.option("--dead", type=int, multiple=True, metavar="ID", help="As if this broker were lost."),
        click.option("--drain", "drained", type=int, multiple=True, metavar="ID", help="Empty this broker."),
    ):
        function = option(function)
    return function


def _throttle_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--throttle", type=click.IntRange(1), metavar="B/S", help="Bytes per second of a broker.")(
        function
    )


@balance.command(
    help="Show what would move, and why. Nothing is changed. With --add, --drain, --dead and --partitions the plan is "
    "for the cluster as it would be then. `ottla balance` is the same."
)
@_plan_options
@click.option("--add", "added", multiple=True, metavar="ID[:RACK]", help="As if this broker were there.")
@click.option("--partitions", multiple=True, metavar="TOPIC=N", help="As if the topic had N partitions.")
@click.option("-o", "--output", "file", metavar="FILE", help="Write the plan as Kafka's JSON, for 'ottla reassign'.")
@_throttle_option
@cluster_options
def plan(
    session: Session,
    sample: float,
    goals: tuple[str, ...],
    dead: tuple[int, ...],
    drained: tuple[int, ...],
    added: tuple[str, ...],
    partitions: tuple[str, ...],
    file: str | None,
    throttle: int | None,
) -> int:
    wishes = _Wishes(drained, dead, added, partitions, goals, sample)

    async def work(admin: AdminClient) -> int:
        state = await _wished(admin, wishes)
        made = _made(state, wishes)
        steps = make_steps(state, made.movements)
        _show(session.output, made, steps, throttle, find_shortages(state, made.stranded))
        if file is not None:
            Path(file).write_text(format_plan({one.partition: list(one.after) for one in made.movements}) + "\n")
        return 1 if made.stranded else 0

    return session.run(work)


def _run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--journal", default=JOURNAL, metavar="FILE", help=f"To resume from.  [default: {JOURNAL}]"),
        click.option("--no-guard", is_flag=True, help="Do not watch how long producers wait."),
        click.option(
            "--latency-factor", type=click.FloatRange(1), default=2.0, metavar="X", help="Stop beyond.  [default: 2]"
        ),
    ):
        function = option(function)
    return function


@balance.command(
    help="Execute a plan in throttled steps. Producers are watched: if they wait twice as long as before, the step is "
    "taken back and the run ends. A run that was interrupted continues with 'ottla balance resume'."
)
@_plan_options
@_throttle_option
@_run_options
@yes_option
@cluster_options
def run(
    session: Session,
    sample: float,
    goals: tuple[str, ...],
    dead: tuple[int, ...],
    drained: tuple[int, ...],
    throttle: int | None,
    journal: str,
    no_guard: bool,
    latency_factor: float,
    yes: bool,
) -> int:
    wishes = _Wishes(drained, dead, (), (), goals, sample)

    async def work(admin: AdminClient) -> int:
        state = await _wished(admin, wishes)
        made = _made(state, wishes)
        steps = make_steps(state, made.movements)
        _show(session.output, made, steps, throttle, find_shortages(state, made.stranded))
        if made.is_empty:
            return 1 if made.stranded else 0
        confirm(f"Move {size(int(made.size_bytes))} of {counted(len(made.movements), 'partition')}?", yes=yes)
        cluster_id = (await admin.cluster.describe()).cluster_id
        topic_ids = await find_topic_ids(admin, steps.steps)
        kept = Journal(Path(journal), cluster_id, steps.steps, throttle, drained=drained, topic_ids=topic_ids)
        if kept.path.exists():
            raise Failure(f"{journal} has a plan that was not finished: 'ottla balance resume', or remove the file.")
        kept.write()
        is_whole = await _execute(session, admin, kept, None if no_guard else latency_factor)
        return 1 if made.stranded or steps.postponed or not is_whole else 0

    return session.run(work)


@balance.command(help="Continue a plan that was interrupted, or stopped because producers waited too long.")
@_run_options
@cluster_options
def resume(session: Session, journal: str, no_guard: bool, latency_factor: float) -> int:
    async def work(admin: AdminClient) -> int:
        kept = Journal.read(Path(journal))
        cluster_id = (await admin.cluster.describe()).cluster_id
        if kept.cluster_id != cluster_id:
            raise Failure(f"{journal} is of the cluster {kept.cluster_id}, and this is {cluster_id}.")
        return 0 if await _execute(session, admin, kept, None if no_guard else latency_factor) else 1

    return session.run(work)


@balance.command(
    help="Watch a cluster and repair it: brokers that are gone for some time, failed directories, skew; slow brokers "
    "lose their leaders. Only the kinds named by --repair are repaired; all are told."
)
@click.option("-i", "--interval", default="30s", metavar="TIME", help="[default: 30s]")
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="End after this many looks.")
@click.option("--dead-after", default="10m", metavar="TIME", help="Then a broker counts as lost.  [default: 10m]")
@click.option(
    "--repair",
    "repaired",
    multiple=True,
    type=click.Choice(["dead", "directory", "skew", "slow"]),
    help="May be repeated.  [default: none]",
)
@click.option("--probe", type=click.FloatRange(0), default=2.0, metavar="S", help="To find slow brokers.  [default: 2]")
@_throttle_option
@_run_options
@cluster_options
def watch(
    session: Session,
    interval: str,
    count: int | None,
    dead_after: str,
    repaired: tuple[str, ...],
    probe: float,
    throttle: int | None,
    journal: str,
    no_guard: bool,
    latency_factor: float,
) -> int:
    from ottla.balance.anomalies import AnomalyDetector
    from ottla.balance.waits import measure_waits

    seconds, dead_seconds = _seconds("--interval", interval), _seconds("--dead-after", dead_after)

    async def work(admin: AdminClient) -> None:
        stopped = stop_signals()
        detector = AnomalyDetector(dead_seconds)
        looks = 0
        if Path(journal).exists():
            await _execute(session, admin, Journal.read(Path(journal)), None if no_guard else latency_factor)
        while not stopped and (count is None or looks < count):
            if looks:
                await pause(seconds, stopped)
            looks += 1
            state = await observe(admin)
            waits = await measure_waits(session.settings, probe) if probe else {}
            found = detector.look(state, waits, time.monotonic())
            for anomaly in found:
                session.output.say(f"{time.strftime('%H:%M:%S')} {anomaly.kind}: {anomaly.text}")
                session.output.emit(json_fields(anomaly))
            steps = _repairs(state, [one for one in found if one.is_due and one.kind in repaired], repaired)
            if steps:
                cluster_id = (await admin.cluster.describe()).cluster_id
                topic_ids = await find_topic_ids(admin, steps)
                kept = Journal(Path(journal), cluster_id, steps, throttle, topic_ids=topic_ids)
                kept.write()
                await _execute(session, admin, kept, None if no_guard else latency_factor)

    return session.run(work)


def _repairs(state: ClusterState, due: list[Anomaly], repaired: tuple[str, ...]) -> tuple[Step, ...]:
    """Slow brokers lose their leaders at once; everything else is a plan."""
    from ottla.balance.demotion import make_demotion

    slow = [one.broker_id for one in due if one.kind == "slow" and one.broker_id is not None]
    steps = [step for one in slow for step in make_demotion(state, one, spared_topics=(PROBE_TOPIC,))]
    if steps or len(slow) == len(due):
        return tuple(steps)
    chosen = default_goals() if "skew" in repaired else [one for one in default_goals() if one.is_hard]
    return make_steps(state, make_plan(state, chosen).movements).steps


def _seconds(option: str, text: str) -> float:
    try:
        return -parse_moment(text, now_ms=0) / 1000
    except ValueError:
        raise click.UsageError(f"{option}={text!r} is no duration; write 30s, 10m or 1h.") from None


async def _wished(admin: AdminClient, wishes: _Wishes) -> ClusterState:
    state = await observe(admin, sample_seconds=wishes.sample_seconds)
    added = [(int(broker_id), rack or None) for broker_id, _, rack in (text.partition(":") for text in wishes.added)]
    state = with_brokers(state, added=added, drained=wishes.drained, dead=wishes.dead)
    for text in wishes.partitions:
        topic, separator, count = text.rpartition("=")
        if not separator or not count.isdigit():
            raise ValueError(f"--partitions {text!r} must look like TOPIC=N.")
        state = with_partitions(state, topic, int(count))
    return state


def _made(state: ClusterState, wishes: _Wishes) -> Plan:
    goals = named_goals(default_goals(), wishes.goals) if wishes.goals else default_goals()
    return make_plan(state, goals)


async def _execute(session: Session, admin: AdminClient, journal: Journal, factor: float | None) -> bool:
    """Returns False if partitions were skipped, because they have changed since the plan was made."""
    total = len(journal.steps)

    def on_step(number: int, step: Step, moving: int) -> None:
        done = len(step.movements) - moving
        session.output.say(f"step {number + 1} of {total}: {done} of {counted(len(step.movements), 'partition')} moved")

    async def move(guard: LatencyGuard | None) -> Executor:
        topic_ids = journal.topic_ids
        executor = Executor(admin, throttle=journal.throttle, guard=guard, on_step=on_step, topic_ids=topic_ids)
        try:
            await executor.run(journal.steps)
        finally:
            if executor.skipped:
                session.output.say(told_skips(executor.skipped))
        return executor

    try:
        if factor is None:
            executor = await move(None)
        else:
            async with LatencyGuard(session.settings, factor=factor, without=journal.drained) as guard:
                executor = await move(guard)
    except ProducersSuffer as error:
        raise Failure(f"{error} Continue later with 'ottla balance resume', perhaps with a lower throttle.") from error
    journal.remove()
    session.output.say("All other steps are done." if executor.skipped else "All steps are done.")
    return not executor.skipped


def _show(output: Output, made: Plan, steps: Steps, throttle: int | None, shortages: list[Shortage]) -> None:
    rate = throttle or ESTIMATED_BYTES_PER_SECOND
    seconds = sum(seconds_of(step, rate) for step in steps.steps)
    output.emit(
        {
            "bytes": made.size_bytes,
            "seconds": seconds,
            "goals": [json_fields(result) for result in made.goals],
            "steps": [[json_fields(movement) for movement in step.movements] for step in steps.steps],
            "postponed": [json_fields(movement) for movement in steps.postponed],
            "stranded": [str(partition) for partition in made.stranded],
            "shortages": [json_fields(shortage) for shortage in shortages],
        }
    )
    output.table(
        ("GOAL", "HARD", "VIOLATED", "AFTER", "LEFT"),
        [
            (row.goal, "yes" if row.is_hard else "", row.violations_before, row.violations_after, "; ".join(row.left))
            for row in made.goals
        ],
        right=(2, 3),
        fold=(4,),
    )
    output.say()
    moved = [movement for step in steps.steps for movement in step.movements]
    if not moved:
        output.say("Nothing can move." if shortages else "Nothing has to move.")
    else:
        _show_steps(output, steps)
    if len(moved) > ROWS_MAX:
        output.say(f"... and {len(moved) - ROWS_MAX} more; --json shows all.")
    if moved:
        output.say(
            f"{counted(len(moved), 'partition')}, {size(int(made.size_bytes))} in {counted(len(steps.steps), 'step')}, "
            f"about {duration(seconds * 1000)} at {size(rate)}/s for each broker"
        )
    for movement in steps.postponed:
        output.say(f"No room for {movement.partition} on {named_brokers(movement.added)}: it stays where it is.")
    for shortage in shortages:
        output.say(f"{shortage.text} {shortage.remedy}")
        output.say(f"  {_listed(shortage)}")


def _listed(shortage: Shortage) -> str:
    named = ", ".join(map(str, shortage.partitions[:PARTITIONS_SHOWN]))
    left = len(shortage.partitions) - PARTITIONS_SHOWN
    return named if left <= 0 else f"{named} and {left} more; --json shows all."


def _show_steps(output: Output, steps: Steps) -> None:
    output.table(
        ("STEP", "PARTITION", "REPLICAS", "NEW REPLICAS", "BYTES"),
        [
            (number + 1, movement.partition, numbers(movement.before), numbers(movement.after), _bytes(movement))
            for number, step in enumerate(steps.steps)
            for movement in step.movements
        ][:ROWS_MAX],
        right=(0, 4),
    )


def _bytes(movement: Movement) -> str:
    return size(int(movement.size_bytes)) if movement.added else "leader only"
