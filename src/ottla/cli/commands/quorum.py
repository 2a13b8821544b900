"""`ottla quorum`: the nodes that keep the metadata log."""

from __future__ import annotations

import sys
import time

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.node_files import controller_listeners, metadata_directory_id, read_node_file
from ottla.cli.output import duration
from ottla.cli.session import Session, confirm, controller_options, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.nodes import Quorum, QuorumReplica
from ottla.host.files import OsFiles
from ottla.model.ids import Uuid

__all__ = ["quorum"]


@click.group(
    cls=VerbGroup, default="describe", verbs={}, help="Show and change the metadata quorum (kafka-metadata-quorum)."
)
def quorum() -> None:
    """The verbs are below."""


@quorum.command("describe", help="Show the leader, the voters and their lag.")
@click.option("--status", "view", flag_value="status", default="status", help="A summary (the default).")
@click.option("--replication", "--re", "view", flag_value="replication", help="Every node.")
@click.option("--human-readable", "--hr", is_flag=True, help="Times as spans.")
@controller_options
def describe(session: Session, view: str, human_readable: bool) -> int:
    async def work(admin: AdminClient) -> None:
        described = await admin.cluster.quorum()
        cluster = await admin.cluster.describe()
        if view == "replication":
            # On a terminal, times are shown relative to now.
            _replication(session, described, human=human_readable or sys.stdout.isatty())
        else:
            _status(session, described, cluster.cluster_id)

    return session.run(work)


@quorum.command("add-controller", help="Make a running controller a voter; name its properties file with --config.")
@click.option(
    "-c",
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The properties file of the new voter; Kafka's --command-config means the same here.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@controller_options
def add_controller(session: Session, config: str | None, dry_run: bool) -> int:
    path = config or session.properties_file
    if path is None:
        raise click.UsageError("Missing --config: the properties file of the new voter.")
    node = read_node_file(path)
    if not node.is_controller:
        raise Failure(f"{path} is not the file of a controller; look at process.roles in it.")
    directory_id = metadata_directory_id(OsFiles(), node)
    listeners = controller_listeners(node)

    async def work(admin: AdminClient) -> None:
        if not dry_run:
            await admin.cluster.add_controller(node.node_id, directory_id, listeners)
        addresses = ", ".join(f"{name}://{address}" for name, address in listeners.items())
        does = "would vote" if dry_run else "votes now"
        session.output.say(f"Controller {node.node_id} with directory {directory_id} at {addresses} {does}.")
        session.output.emit({"added": not dry_run, "nodeId": node.node_id, "directoryId": str(directory_id)})

    return session.run(work)


@quorum.command("remove-controller", help="Remove a controller from the voters.")
@click.option("-i", "--controller-id", "node_id", type=click.IntRange(0), required=True, metavar="ID", help="Which.")
@click.option(
    "-d",
    "--controller-directory-id",
    "directory",
    metavar="ID",
    help="The id of its directory, as 'describe --replication' shows it; optional if there is only one.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@yes_option
@controller_options
def remove_controller(session: Session, node_id: int, directory: str | None, dry_run: bool, yes: bool) -> int:
    wanted = None if directory is None else Uuid.parse(directory)

    async def work(admin: AdminClient) -> None:
        voters = (await admin.cluster.quorum()).voters
        directory_ids = [
            voter.directory_id for voter in voters if voter.node_id == node_id and wanted in (None, voter.directory_id)
        ]
        if len(directory_ids) != 1:
            raise Failure(
                f"There is not exactly one such voter {node_id}; 'ottla quorum describe --replication' shows all."
            )
        if not dry_run:
            remaining = len(voters) - 1
            confirm(f"Remove controller {node_id} from the voters? {remaining} will remain.", yes=yes)
            await admin.cluster.remove_controller(node_id, directory_ids[0])
        does = "would lose its vote" if dry_run else "votes no more"
        session.output.say(f"Controller {node_id} with directory {directory_ids[0]} {does}.")
        session.output.emit({"removed": not dry_run, "nodeId": node_id, "directoryId": str(directory_ids[0])})

    return session.run(work)


def _status(session: Session, described: Quorum, cluster_id: str) -> None:
    leader = next((voter for voter in described.voters if voter.node_id == described.leader_id), None)
    end = leader.log_end_offset if leader is not None else described.high_watermark
    followers = [voter for voter in described.voters if voter.node_id != described.leader_id]
    lag = max((end - follower.log_end_offset for follower in followers), default=0)
    behind = 0
    if leader is not None and lag > 0:
        behind = max(leader.last_caught_up_timestamp - follower.last_caught_up_timestamp for follower in followers)
    facts = {
        "clusterId": cluster_id,
        "leaderId": described.leader_id,
        "leaderEpoch": described.leader_epoch,
        "highWatermark": described.high_watermark,
        "maxFollowerLag": lag,
        "maxFollowerLagTimeMs": behind,
        "currentVoters": [voter.node_id for voter in described.voters],
        "currentObservers": [observer.node_id for observer in described.observers],
    }
    titles = (
        "Cluster id",
        "Leader",
        "Leader epoch",
        "High watermark",
        "Largest lag",
        "Largest lag in ms",
        "Voters",
        "Observers",
    )
    for title, value in zip(titles, facts.values(), strict=True):
        shown = ", ".join(map(str, value)) or "-" if isinstance(value, list) else value
        session.output.say(f"{title + ':':<19} {shown}")
    session.output.emit(facts)


def _replication(session: Session, described: Quorum, *, human: bool) -> None:
    now_ms = int(time.time() * 1000)
    rows = []
    answers = []
    for replica, role in [
        *[(voter, "leader" if voter.node_id == described.leader_id else "follower") for voter in described.voters],
        *[(observer, "observer") for observer in described.observers],
    ]:
        leader_end = max((other.log_end_offset for other in described.voters), default=0)
        lag = max(leader_end - replica.log_end_offset, 0)
        rows.append(
            (
                replica.node_id,
                role,
                replica.log_end_offset,
                lag,
                _when(replica.last_fetch_timestamp, now_ms, human=human),
                _when(replica.last_caught_up_timestamp, now_ms, human=human),
                # Voters of a static configuration need no directory id.
                str(replica.directory_id) if replica.directory_id else None,
            )
        )
        answers.append(_as_json(replica, role, lag))
    session.output.table(
        ("NODE", "ROLE", "END", "LAG", "LAST FETCH", "CAUGHT UP", "DIRECTORY"), rows, right=(0, 2, 3), fold=(6,)
    )
    session.output.emit(answers)


def _as_json(replica: QuorumReplica, role: str, lag: int) -> dict[str, object]:
    return {
        "nodeId": replica.node_id,
        "directoryId": str(replica.directory_id),
        "status": role,
        "logEndOffset": replica.log_end_offset,
        "lag": lag,
        "lastFetchTimestamp": replica.last_fetch_timestamp,
        "lastCaughtUpTimestamp": replica.last_caught_up_timestamp,
    }


def _when(timestamp: int, now_ms: int, *, human: bool) -> str:
    if timestamp < 0:
        return "-"
    return f"{duration(max(now_ms - timestamp, 0))} ago" if human else str(timestamp)
