"""`ottla log-dirs`: the log directories of brokers and the replicas in them."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.words import parse_node_ids
from ottla.cli.names import TOPICS
from ottla.cli.output import size
from ottla.cli.session import Session, cluster_options
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.partitions import LogDirectory
from ottla.model.errors import KafkaError

__all__ = ["log_dirs"]


@click.group(cls=VerbGroup, default="describe", help="Show the log directories and their replicas (kafka-log-dirs).")
def log_dirs() -> None:
    """The verb is below."""


@log_dirs.command("describe", help="Directories by size, and the replicas in them with --replicas.")
@click.option("--brokers", "--broker-list", "brokers", metavar="1,2", help="Only these brokers.")
@click.option("--topic-list", "--topics", "topics", type=TOPICS, metavar="A,B", help="Only these topics.")
@click.option("--replicas", is_flag=True, help="One line for each replica.")
@cluster_options
def describe(session: Session, brokers: str | None, topics: str | None, replicas: bool) -> int:
    wanted = parse_node_ids(brokers, option="--brokers") if brokers else None
    names = {name.strip() for name in topics.split(",")} if topics else None

    async def work(admin: AdminClient) -> None:
        broker_ids = await admin.connections.all_brokers()
        missing = [broker_id for broker_id in wanted or () if broker_id not in broker_ids]
        if missing:
            raise Failure(f"There is no broker {missing[0]}; there are {', '.join(map(str, broker_ids))}.")
        by_broker = await admin.partitions.log_directories(wanted or broker_ids)
        answers: list[dict[str, Any]] = []
        rows: list[tuple[object, ...]] = []
        for broker, directories in by_broker.items():
            if isinstance(directories, KafkaError):
                session.output.complain(f"broker {broker}", directories)
                continue
            answers.append({"broker": broker, "logDirs": [_as_json(directory, names) for directory in directories]})
            rows += [row for directory in directories for row in _rows(broker, directory, names, replicas=replicas)]
        if replicas:
            session.output.table(("BROKER", "PARTITION", "SIZE", "LAG", "FUTURE"), rows, right=(0, 2, 3), fold=(1,))
        else:
            session.output.table(
                ("BROKER", "DIRECTORY", "REPLICAS", "SIZE", "FREE", "STATE"), rows, right=(0, 2, 3, 4), fold=(1,)
            )
        session.output.emit({"version": 1, "brokers": answers})

    return session.run(work)


def _rows(broker: int, directory: LogDirectory, names: set[str] | None, *, replicas: bool) -> list[tuple[object, ...]]:
    shown = {key: value for key, value in directory.replicas.items() if names is None or key.topic in names}
    if replicas:
        return [
            (broker, str(key), size(value.size_bytes), value.offset_lag, value.is_future)
            for key, value in sorted(shown.items())
        ]
    total = sum(value.size_bytes for value in shown.values())
    state = "ok" if directory.error is None else directory.error.code.name
    return [(broker, directory.path, len(shown), size(total), size(directory.usable_bytes), state)]


def _as_json(directory: LogDirectory, names: set[str] | None) -> dict[str, Any]:
    return {
        "logDir": directory.path,
        "error": None if directory.error is None else directory.error.code.name,
        "totalBytes": directory.total_bytes,
        "usableBytes": directory.usable_bytes,
        "partitions": [
            {
                "partition": str(key),
                "size": value.size_bytes,
                "offsetLag": value.offset_lag,
                "isFuture": value.is_future,
            }
            for key, value in sorted(directory.replicas.items())
            if names is None or key.topic in names
        ],
    }
