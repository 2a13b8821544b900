"""`ottla reassign`: moves replicas to other brokers, or to other directories."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import click

from ottla.balance.throttles import clear_throttles, set_throttles
from ottla.cli.failures import Failure, sentence_of
from ottla.cli.logic.reassignment import Plan, format_plan, parse_plan, parse_topics, propose
from ottla.cli.logic.words import parse_node_ids
from ottla.cli.names import TOPIC
from ottla.cli.output import counted, json_fields, numbers
from ottla.cli.session import Session, cluster_options, confirm, parsed_file, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.partitions import LogDirectory
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["reassign"]

# The state of a replica whose broker has not told where the replica is: it may be moving.
UNKNOWN = "unknown"
VIEWS_MAX = 5
VIEW_SECONDS = 0.2


@click.group(cls=VerbGroup, help="Move replicas to other brokers (kafka-reassign-partitions).")
def reassign() -> None:
    """The verbs are below."""


plan_option = click.option(
    "-f",
    "--reassignment-json-file",
    "plan_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The plan.",
)


@reassign.command("generate", help="Propose a plan that spreads topics over brokers.")
@click.option("--topics-to-move-json-file", "topics_file", type=click.Path(exists=True), metavar="FILE", help="Topics.")
@click.option("-t", "--topic", "topics", multiple=True, type=TOPIC, metavar="TOPIC", help="A topic; may be repeated.")
@click.option("--broker-list", "--brokers", "brokers", required=True, metavar="1,2,3", help="Where they shall be.")
@click.option("--disable-rack-aware", is_flag=True, help="Do not look at racks.")
@cluster_options
def generate(
    session: Session, topics_file: str | None, topics: tuple[str, ...], brokers: str, disable_rack_aware: bool
) -> int:
    wanted = list(topics)
    if topics_file is not None:
        wanted += parsed_file(topics_file, parse_topics)
    if not wanted:
        raise click.UsageError("Missing topics: add --topic or --topics-to-move-json-file.")
    targets = parse_node_ids(brokers, option="--broker-list")

    async def work(admin: AdminClient) -> None:
        current = await _current(admin, wanted)
        known_brokers = admin.connections.metadata.brokers
        for broker in targets:
            if broker not in known_brokers:
                raise Failure(f"There is no broker {broker}; there are {', '.join(map(str, sorted(known_brokers)))}.")
        racks = {broker: None if disable_rack_aware else known_brokers[broker].rack for broker in targets}
        proposed = propose(current, racks, hosts={broker: known_brokers[broker].host for broker in targets})
        session.output.say("Current partition replica assignment")
        session.output.say(format_plan(current, await _directories(admin, current)))
        session.output.say()
        session.output.say("Proposed partition reassignment configuration")
        session.output.say(format_plan(proposed))
        session.output.emit({"current": _plain(current), "proposed": _plain(proposed)})

    return session.run(work)


@reassign.command("execute", help="Begin what a plan says.")
@plan_option
@click.option(
    "--throttle", type=click.IntRange(1), metavar="BYTES/S", help="Limit of bytes per second between brokers."
)
@click.option(
    "--replica-alter-log-dirs-throttle", "dirs_throttle", type=click.IntRange(1), metavar="BYTES/S", help="On a broker."
)
@click.option("--additional", is_flag=True, help="Even while other partitions are moving.")
@yes_option
@cluster_options
def execute(
    session: Session, plan_file: str, throttle: int | None, dirs_throttle: int | None, additional: bool, yes: bool
) -> int:
    plan = _read(plan_file)

    async def work(admin: AdminClient) -> None:
        current = await _current(admin, sorted({partition.topic for partition in plan.replicas}))
        for partition in plan.replicas:
            if partition not in current:
                raise Failure(f"There is no partition {partition}. 'ottla topics describe' shows all partitions.")
        moving = await admin.partitions.reassignments()
        if moving and not additional:
            raise Failure(
                f"{len(moving)} partitions are moving already. Wait ('ottla reassign list'), or add --additional."
            )
        before = {partition: current[partition] for partition in plan.replicas}
        session.output.say("Current partition replica assignment, to roll back with")
        session.output.say(format_plan(before, await _directories(admin, before)))
        confirm(f"Move {counted(len(plan.replicas), 'partition')}?", yes=yes)
        if throttle is not None or dirs_throttle is not None:
            await set_throttles(admin, before, plan.replicas, between=throttle, within=dirs_throttle)
        started = []
        for partition, error in (await admin.partitions.reassign(dict(plan.replicas))).items():
            if error is None:
                started.append(str(partition))
            else:
                session.output.complain(str(partition), error)
        await _move_directories(session, admin, plan)
        if started:
            session.output.say(f"Began to move {', '.join(started)}.")
        session.output.emit({"started": started, "before": _plain(before)})

    return session.run(work)


@reassign.command("verify", help="Show the progress of a plan; remove throttles when it is complete.")
@plan_option
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles as they are.")
@cluster_options
def verify(session: Session, plan_file: str, preserve_throttles: bool) -> int:
    plan = _read(plan_file)

    async def work(admin: AdminClient) -> None:
        rows, moving = await _states(admin, plan)
        # Brokers learn of the end of a move shortly after the controller has decided it.
        for _ in range(VIEWS_MAX):
            if not any(row[3] == "elsewhere" for row in rows):
                break
            await asyncio.sleep(VIEW_SECONDS)
            rows, moving = await _states(admin, plan)
        session.output.table(("PARTITION", "WANTED", "REPLICAS", "STATE"), rows, fold=(0,))
        if not moving and not preserve_throttles:
            cleared = await clear_throttles(admin, [partition.topic for partition in plan.replicas])
            if cleared:
                session.output.say("Throttles were lifted.")
        session.output.emit(
            [{"partition": row[0], "wanted": row[1], "replicas": row[2], "state": row[3]} for row in rows]
        )
        session.output.failed |= any(row[3] not in ("done", "moving") for row in rows)

    return session.run(work)


@reassign.command("cancel", help="Cancel the moves of a plan.")
@plan_option
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles as they are.")
@yes_option
@cluster_options
def cancel(session: Session, plan_file: str, preserve_throttles: bool, yes: bool) -> int:
    plan = _read(plan_file)

    async def work(admin: AdminClient) -> None:
        moving = await admin.partitions.reassignments(plan.replicas)
        if not moving:
            session.output.say("No partition of the plan is moving.")
            session.output.emit([])
            return
        confirm(f"Stop moving {counted(len(moving), 'partition')}?", yes=yes)
        stopped = []
        for partition, error in (await admin.partitions.reassign(dict.fromkeys(moving, None))).items():
            if error is None:
                stopped.append(str(partition))
            else:
                session.output.complain(str(partition), error)
        if not preserve_throttles:
            await clear_throttles(admin, [partition.topic for partition in plan.replicas])
        session.output.say(f"Stopped {', '.join(stopped)}.")
        session.output.emit(stopped)

    return session.run(work)


@reassign.command("list", help="Show what moves now.")
@cluster_options
def list_moving(session: Session) -> int:
    async def work(admin: AdminClient) -> None:
        reassignments = sorted((await admin.partitions.reassignments()).items())
        if not reassignments:
            session.output.say("No partition reassignments found.")
        else:
            session.output.table(
                ("PARTITION", "REPLICAS", "ADDING", "REMOVING"),
                [
                    (
                        str(key),
                        numbers(reassignment.replicas),
                        numbers(reassignment.adding),
                        numbers(reassignment.removing),
                    )
                    for key, reassignment in reassignments
                ],
                fold=(0,),
            )
        session.output.emit(
            [{"partition": str(key), **json_fields(reassignment)} for key, reassignment in reassignments]
        )

    return session.run(work)


async def _states(admin: AdminClient, plan: Plan) -> tuple[list[tuple[str, str, str, str]], bool]:
    """(partition, wanted, replicas, state) of the plan, and whether a move needs the throttles of the brokers.

    The rates of a broker apply to all moves, so a reassignment of another plan needs them as well.
    """
    moving = await admin.partitions.reassignments()
    current = await _current(admin, sorted({partition.topic for partition in plan.replicas}))
    rows = []
    for partition, wanted in sorted(plan.replicas.items()):
        have = current.get(partition)
        if have is None:
            state = "there is no such partition"
        elif partition in moving:
            state = "moving"
        else:
            state = "done" if list(have) == wanted else "elsewhere"
        rows.append((str(partition), numbers(wanted), numbers(have or ()), state))
    rows += (directories := await _directory_states(admin, plan))
    return rows, bool(moving) or any(row[3].startswith(("moving", UNKNOWN)) for row in directories)


async def _directory_states(admin: AdminClient, plan: Plan) -> list[tuple[str, str, str, str]]:
    """(replica, wanted directory, directory, state) of all replicas whose directory the plan names."""
    if not plan.directories:
        return []
    current: dict[tuple[int, TopicPartition], str] = {}
    future: dict[tuple[int, TopicPartition], str] = {}
    # The other brokers need not answer.
    concerned = {broker for broker, _ in plan.directories} & admin.connections.metadata.brokers.keys()
    by_broker = await _log_directories(admin, concerned, plan.replicas)
    for broker, directories in by_broker.items():
        for directory in directories if isinstance(directories, list) else ():
            for partition, replica in directory.replicas.items():
                (future if replica.is_future else current)[broker, partition] = directory.path
    rows = []
    for (broker, partition), wanted in sorted(plan.directories.items()):
        have = current.get((broker, partition))
        answer = by_broker.get(broker)
        if isinstance(answer, Exception):
            state = f"{UNKNOWN}: {sentence_of(answer)}"
        elif have is None:
            state = "there is no such replica"
        elif future.get((broker, partition)) == wanted:
            state = "moving"
        else:
            state = "done" if have == wanted else "elsewhere"
        rows.append((f"{partition} on broker {broker}", wanted, have or "", state))
    return rows


def _read(path: str) -> Plan:
    return parsed_file(path, parse_plan)


async def _current(admin: AdminClient, topics: list[str]) -> dict[TopicPartition, list[int]]:
    metadata = await admin.connections.refresh(topics)
    assignments = {}
    for name in topics:
        info = metadata.topics.get(name)
        if info is None or (info.error is not None and not info.partitions):
            raise Failure(f"There is no topic {name!r}. 'ottla topics list' shows all topics.")
        for number, partition in info.partitions.items():
            assignments[TopicPartition(name, number)] = list(partition.replicas)
    return assignments


async def _directories(
    admin: AdminClient, replicas: dict[TopicPartition, list[int]]
) -> dict[tuple[int, TopicPartition], str]:
    """(broker, partition) -> log directory of the replica, as reported by the brokers."""
    concerned = {broker for brokers in replicas.values() for broker in brokers}
    by_broker = await _log_directories(admin, concerned & admin.connections.metadata.brokers.keys(), replicas)
    return {
        (broker, partition): directory.path
        for broker, directories in by_broker.items()
        if isinstance(directories, list)
        for directory in directories
        for partition, replica in directory.replicas.items()
        if not replica.is_future
    }


async def _log_directories(
    admin: AdminClient, brokers: Collection[int], partitions: Collection[TopicPartition]
) -> dict[int, list[LogDirectory] | KafkaError | ClientError]:
    """The log directories of brokers, or why a broker does not tell them."""

    async def ask(broker: int) -> list[LogDirectory] | KafkaError | ClientError:
        try:
            return (await admin.partitions.log_directories([broker], partitions=partitions))[broker]
        except ClientError as error:
            return error

    return dict(zip(brokers, await asyncio.gather(*map(ask, brokers)), strict=True))


async def _move_directories(session: Session, admin: AdminClient, plan: Plan) -> None:
    if not plan.directories:
        return
    moves: dict[int, dict[TopicPartition, str]] = {}
    for (broker, partition), path in plan.directories.items():
        moves.setdefault(broker, {})[partition] = path
    for (broker, partition), error in (await admin.partitions.move_to_directories(moves)).items():
        if error is not None:
            session.output.complain(f"{partition} on broker {broker}", error)


def _plain(replicas: dict[TopicPartition, list[int]]) -> list[dict[str, Any]]:
    return [
        {"topic": partition.topic, "partition": partition.partition, "replicas": list(wanted)}
        for partition, wanted in sorted(replicas.items())
    ]
