"""`ottla balance`: plans and executes an even distribution of replicas and leaders."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.balance.execute import Executor, ProducersSuffer, find_topic_ids, told_skips
from ottla.balance.goals import default_goals, named_goals
from ottla.balance.guard import TOPIC as PROBE_TOPIC
from ottla.balance.guard import LatencyGuard
from ottla.balance.journal import Journal, JournalInUse
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
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError

if TYPE_CHECKING:
    from ottla.balance.anomalies import Anomaly
    from ottla.balance.state import ClusterState

__all__ = ["balance"]

JOURNAL = "ottla-balance.json"
# The most rows of a table; all movements are in the JSON.
ROWS_MAX = 40
# The most partitions that a sentence names.
PARTITIONS_SHOWN = 10
# The write rate of a disk beside other work. It estimates the duration of a plan without a throttle.
ESTIMATED_BYTES_PER_SECOND = 50_000_000
# How often a repair looks for a signal.
STOP_LOOK_SECONDS = 0.2


@click.group(cls=VerbGroup, default="plan", verbs={}, help=COMMANDS["balance"].help)
def balance() -> None:
    """The verbs are below."""


class _Wishes(NamedTuple):
    """The options of a plan."""

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
        proposal = _plan_for(state, wishes)
        steps = make_steps(state, proposal.movements)
        _show(session.output, proposal, steps, throttle, find_shortages(state, proposal.stranded))
        if file is not None:
            Path(file).write_text(
                format_plan({movement.partition: list(movement.after) for movement in proposal.movements}) + "\n"
            )
        return 1 if proposal.stranded else 0

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
        proposal = _plan_for(state, wishes)
        steps = make_steps(state, proposal.movements)
        _show(session.output, proposal, steps, throttle, find_shortages(state, proposal.stranded))
        if proposal.is_empty:
            return 1 if proposal.stranded else 0
        confirm(f"Move {size(int(proposal.size_bytes))} of {counted(len(proposal.movements), 'partition')}?", yes=yes)
        cluster_id = (await admin.cluster.describe()).cluster_id
        topic_ids = await find_topic_ids(admin, steps.steps)
        run_journal = Journal(Path(journal), cluster_id, steps.steps, throttle, drained=drained, topic_ids=topic_ids)
        if run_journal.path.exists():
            raise Failure(f"{journal} has a plan that was not finished: 'ottla balance resume', or remove the file.")
        run_journal.write()
        is_whole = await _execute(session, admin, run_journal, None if no_guard else latency_factor)
        return 1 if proposal.stranded or steps.postponed or not is_whole else 0

    return session.run(work)


@balance.command(help="Continue a plan that was interrupted, or stopped because producers waited too long.")
@_run_options
@cluster_options
def resume(session: Session, journal: str, no_guard: bool, latency_factor: float) -> int:
    async def work(admin: AdminClient) -> int:
        run_journal = await _journal_of_cluster(admin, journal)
        return 0 if await _execute(session, admin, run_journal, None if no_guard else latency_factor) else 1

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

    detector = AnomalyDetector(dead_seconds)
    factor = None if no_guard else latency_factor

    async def look(admin: AdminClient) -> None:
        unfinished = await _journal_of_cluster(admin, journal) if Path(journal).exists() else None
        # A plan of another command may have been stopped because producers suffered: only an operator continues it.
        if unfinished is not None and unfinished.is_repair and repaired:
            await _execute(session, admin, unfinished, factor)
        state = await observe(admin)
        waits = await measure_waits(session.settings, probe) if probe else {}
        anomalies = detector.look(state, waits, time.monotonic())
        for anomaly in anomalies:
            session.output.say(f"{time.strftime('%H:%M:%S')} {anomaly.kind}: {anomaly.text}")
            session.output.emit(json_fields(anomaly))
        steps = _repairs(
            state, [anomaly for anomaly in anomalies if anomaly.is_due and anomaly.kind in repaired], repaired
        )
        if steps:
            await _repair(session, admin, Path(journal), steps, throttle, factor)

    async def work(admin: AdminClient) -> None:
        stopped = stop_signals()
        looks = 0
        while not stopped and (count is None or looks < count):
            if looks:
                await pause(seconds, stopped)
            looks += 1
            try:
                await _unless_stopped(look(admin), stopped)
            except JournalInUse as busy:
                session.output.say(f"{time.strftime('%H:%M:%S')} {busy}")
            except (ClientError, KafkaError) as error:
                # Only the first look ends the command: later the cluster may be out of reach for a time.
                if looks == 1:
                    raise
                session.output.say(f"{time.strftime('%H:%M:%S')} The cluster could not be checked: {error}")

    return session.run(work)


async def _repair(
    session: Session,
    admin: AdminClient,
    journal: Path,
    steps: Sequence[Step],
    throttle: int | None,
    factor: float | None,
) -> None:
    """Executes a new plan, unless the plan of another command is not finished."""
    if journal.exists():
        session.output.say(
            f"Nothing is repaired: {journal} has a plan that was not finished. End it with 'ottla balance resume', "
            "or remove the file."
        )
        return
    cluster_id = (await admin.cluster.describe()).cluster_id
    topic_ids = await find_topic_ids(admin, steps)
    run_journal = Journal(journal, cluster_id, steps, throttle, topic_ids=topic_ids, is_repair=True)
    run_journal.write()
    await _execute(session, admin, run_journal, factor)


async def _unless_stopped(work: Coroutine[Any, Any, None], stopped: list[int]) -> None:
    """Waits for `work`, and cancels it when one of `stop_signals` has arrived: a repair may take hours."""
    task = asyncio.ensure_future(work)
    while not stopped and not task.done():
        await asyncio.wait([task], timeout=STOP_LOOK_SECONDS)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def _journal_of_cluster(admin: AdminClient, file: str) -> Journal:
    """The journal of an interrupted run. Raises Failure if it belongs to another cluster."""
    journal = Journal.read(Path(file))
    cluster_id = (await admin.cluster.describe()).cluster_id
    if journal.cluster_id != cluster_id:
        raise Failure(f"{file} is of the cluster {journal.cluster_id}, and this is {cluster_id}.")
    return journal


def _repairs(state: ClusterState, due: list[Anomaly], repaired: tuple[str, ...]) -> tuple[Step, ...]:
    """The steps for due anomalies. Slow brokers lose their leaders at once; all other repairs are planned."""
    from ottla.balance.demotion import make_demotion

    slow = [anomaly.broker_id for anomaly in due if anomaly.kind == "slow" and anomaly.broker_id is not None]
    steps = [step for broker_id in slow for step in make_demotion(state, broker_id, spared_topics=(PROBE_TOPIC,))]
    if steps or len(slow) == len(due):
        return tuple(steps)
    chosen = default_goals() if "skew" in repaired else [goal for goal in default_goals() if goal.is_hard]
    lost = {anomaly.broker_id for anomaly in due if anomaly.kind == "dead"}
    # The planner moves the replicas of all brokers that are gone, also of brokers that may only be restarting.
    spared = {broker_id for broker_id, broker in state.brokers.items() if not broker.is_alive} - lost
    if all(anomaly.kind != "directory" for anomaly in due):
        healthy = {
            broker_id: replace(broker, failed_replicas=frozenset()) for broker_id, broker in state.brokers.items()
        }
        state = replace(state, brokers=healthy)
    movements = [
        movement
        for movement in make_plan(state, chosen).movements
        if spared.isdisjoint(movement.removed) or not lost.isdisjoint(movement.removed)
    ]
    return make_steps(state, movements).steps


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


def _plan_for(state: ClusterState, wishes: _Wishes) -> Plan:
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
            if executor.leaves_throttles:
                session.output.say(
                    "The throttles stay until 'ottla balance resume' has ended, because replicas may still move."
                )
        return executor

    with journal.locked():
        try:
            if factor is None:
                executor = await move(None)
            else:
                async with LatencyGuard(session.settings, factor=factor, without=journal.drained) as guard:
                    executor = await move(guard)
        except ProducersSuffer as error:
            advice = "Continue later with 'ottla balance resume', perhaps with a lower throttle."
            raise Failure(f"{error} {advice}") from error
        journal.remove()
    session.output.say("All other steps are done." if executor.skipped else "All steps are done.")
    return not executor.skipped


def _show(output: Output, proposal: Plan, steps: Steps, throttle: int | None, shortages: list[Shortage]) -> None:
    rate = throttle or ESTIMATED_BYTES_PER_SECOND
    seconds = sum(seconds_of(step, rate) for step in steps.steps)
    output.emit(
        {
            "bytes": proposal.size_bytes,
            "seconds": seconds,
            "goals": [json_fields(result) for result in proposal.goals],
            "steps": [[json_fields(movement) for movement in step.movements] for step in steps.steps],
            "postponed": [json_fields(movement) for movement in steps.postponed],
            "stranded": [str(partition) for partition in proposal.stranded],
            "shortages": [json_fields(shortage) for shortage in shortages],
        }
    )
    output.table(
        ("GOAL", "HARD", "VIOLATED", "AFTER", "LEFT"),
        [
            (row.goal, "yes" if row.is_hard else "", row.violations_before, row.violations_after, "; ".join(row.left))
            for row in proposal.goals
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
            f"{counted(len(moved), 'partition')}, {size(int(proposal.size_bytes))} "
            f"in {counted(len(steps.steps), 'step')}, "
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
