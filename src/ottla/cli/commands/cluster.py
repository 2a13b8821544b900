"""`ottla cluster`: nodes, the cluster's id, and unregistering a broker."""

from __future__ import annotations

import click

from ottla.cli.output import json_fields
from ottla.cli.session import Session, confirm, controller_options, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient

__all__ = ["cluster"]


@click.group(
    cls=VerbGroup, default="describe", help="Show nodes and the cluster's id; unregister a broker (kafka-cluster)."
)
def cluster() -> None:
    """The verbs are below."""


@cluster.command("cluster-id", help="Print the cluster's id.")
@controller_options
def cluster_id(session: Session) -> int:
    async def work(admin: AdminClient) -> None:
        described = await admin.cluster.describe()
        session.output.say(described.cluster_id)
        session.output.emit({"clusterId": described.cluster_id})

    return session.run(work)


@cluster.command("describe", help="Show the brokers.")
@click.option("--include-fenced-brokers", is_flag=True, help="Also registered brokers that are fenced.")
@controller_options
def describe(session: Session, include_fenced_brokers: bool) -> int:
    async def work(admin: AdminClient) -> None:
        described = await admin.cluster.describe(fenced=include_fenced_brokers)
        leaders = {node.node_id: 0 for node in described.brokers}
        replicas = dict(leaders)
        # Controllers do not answer requests about partitions.
        topics = {} if session.settings.are_controllers else await admin.topics.all()
        for topic in topics.values():
            for partition in topic.partitions.values():
                leaders[partition.leader] = leaders.get(partition.leader, 0) + 1
                for broker in partition.replicas:
                    replicas[broker] = replicas.get(broker, 0) + 1
        session.output.say(f"Cluster {described.cluster_id}")
        if session.settings.are_controllers:
            session.output.say(f"Controller {described.controller_id} is active.")
        session.output.table(
            ("BROKER", "ADDRESS", "RACK", "STATE", "LEADS", "REPLICAS"),
            [
                (
                    node.node_id,
                    f"{node.host}:{node.port}",
                    node.rack,
                    "fenced" if node.is_fenced else "up",
                    leaders[node.node_id],
                    replicas[node.node_id],
                )
                for node in described.brokers
            ],
            right=(0, 4, 5),
        )
        session.output.emit(
            {
                "clusterId": described.cluster_id,
                "brokers": [
                    {
                        "id": node.node_id,
                        "host": node.host,
                        "port": node.port,
                        "rack": node.rack,
                        "fenced": node.is_fenced,
                        "leads": leaders[node.node_id],
                        "replicas": replicas[node.node_id],
                    }
                    for node in described.brokers
                ],
            }
        )

    return session.run(work)


@cluster.command("list-endpoints", help="Show the brokers (Kafka's name for describe).")
@click.option("--include-fenced-brokers", is_flag=True, help="Also registered brokers that are fenced.")
@controller_options
def list_endpoints(session: Session, include_fenced_brokers: bool) -> int:
    async def work(admin: AdminClient) -> None:
        described = await admin.cluster.describe(fenced=include_fenced_brokers)
        session.output.table(
            ("ID", "HOST", "PORT", "RACK", "STATE"),
            [
                (node.node_id, node.host, node.port, node.rack, "fenced" if node.is_fenced else "unfenced")
                for node in described.brokers
            ],
            right=(0, 2),
        )
        session.output.emit([json_fields(node) for node in described.brokers])

    return session.run(work)


@cluster.command("unregister", help="Unregister a broker that will not come back.")
@click.option("--id", "broker_id", type=click.IntRange(0), required=True, metavar="ID", help="The broker.")
@yes_option
@controller_options
def unregister(session: Session, broker_id: int, yes: bool) -> int:
    async def work(admin: AdminClient) -> None:
        confirm(f"Forget broker {broker_id}?", yes=yes)
        await admin.cluster.unregister(broker_id)
        session.output.say(f"Broker {broker_id} is no longer registered.")
        session.output.emit({"unregistered": broker_id})

    return session.run(work)
