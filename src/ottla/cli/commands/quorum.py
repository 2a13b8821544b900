"""`ottla quorum`: the nodes that keep the metadata log."""

from __future__ import annotations

import time

import click

from ottla.cli.output import duration
from ottla.cli.session import Session, cluster_options
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.nodes import Quorum, QuorumReplica

__all__ = ["quorum"]


@click.group(cls=VerbGroup, default="describe", verbs={}, help="Show the metadata quorum (kafka-metadata-quorum).")
def quorum() -> None:
    """The verb is below."""


@quorum.command("describe", help="Show who leads and how far the others are.")
@click.option("--status", "view", flag_value="status", default="status", help="A summary (the default).")
@click.option("--replication", "--re", "view", flag_value="replication", help="Every node.")
@click.option("--human-readable", "--hr", is_flag=True, help="Times as spans.")
@cluster_options
def describe(session: Session, view: str, human_readable: bool) -> int:
    async def work(admin: AdminClient) -> None:
        found = await admin.cluster.quorum()
        cluster = await admin.cluster.describe()
        if view == "replication":
            _replication(session, found, human=human_readable)
        else:
            _status(session, found, cluster.cluster_id)

    return session.run(work)


def _status(session: Session, found: Quorum, cluster_id: str) -> None:
    leader = next((one for one in found.voters if one.node_id == found.leader_id), None)
    end = leader.log_end_offset if leader is not None else found.high_watermark
    followers = [one for one in found.voters if one.node_id != found.leader_id]
    lag = max((end - one.log_end_offset for one in followers), default=0)
    behind = 0
    if leader is not None and lag > 0:
        behind = max(leader.last_caught_up_timestamp - one.last_caught_up_timestamp for one in followers)
    facts = {
        "clusterId": cluster_id,
        "leaderId": found.leader_id,
        "leaderEpoch": found.leader_epoch,
        "highWatermark": found.high_watermark,
        "maxFollowerLag": lag,
        "maxFollowerLagTimeMs": behind,
        "currentVoters": [one.node_id for one in found.voters],
        "currentObservers": [one.node_id for one in found.observers],
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


def _replication(session: Session, found: Quorum, *, human: bool) -> None:
    now_ms = int(time.time() * 1000)
    rows = []
    answers = []
    for one, role in [
        *[(one, "leader" if one.node_id == found.leader_id else "follower") for one in found.voters],
        *[(one, "observer") for one in found.observers],
    ]:
        leader_end = max((other.log_end_offset for other in found.voters), default=0)
        lag = max(leader_end - one.log_end_offset, 0)
        rows.append(
            (
                one.node_id,
                role,
                one.log_end_offset,
                lag,
                _when(one.last_fetch_timestamp, now_ms, human=human),
                _when(one.last_caught_up_timestamp, now_ms, human=human),
                str(one.directory_id),
            )
        )
        answers.append(_as_json(one, role, lag))
    session.output.table(
        ("NODE", "ROLE", "END", "LAG", "LAST FETCH", "CAUGHT UP", "DIRECTORY"), rows, right=(0, 2, 3), fold=(6,)
    )
    session.output.emit(answers)


def _as_json(one: QuorumReplica, role: str, lag: int) -> dict[str, object]:
    return {
        "nodeId": one.node_id,
        "directoryId": str(one.directory_id),
        "status": role,
        "logEndOffset": one.log_end_offset,
        "lag": lag,
        "lastFetchTimestamp": one.last_fetch_timestamp,
        "lastCaughtUpTimestamp": one.last_caught_up_timestamp,
    }


def _when(timestamp: int, now_ms: int, *, human: bool) -> str:
    if timestamp < 0:
        return "-"
    return f"{duration(max(now_ms - timestamp, 0))} ago" if human else str(timestamp)
