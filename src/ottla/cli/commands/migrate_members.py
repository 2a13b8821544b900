"""`ottla migrate join|leave`: Ottla nodes join a cluster of Apache Kafka and Kafka nodes leave it, or the reverse."""

from __future__ import annotations

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.doctor_finding import WRONG, Finding
from ottla.cli.logic.migration_checks import (
    KAFKA,
    OTTLA,
    check_cluster,
    check_directories,
    check_file,
    check_joining,
    check_leaving,
)
from ottla.cli.output import Output, counted, json_fields, size
from ottla.cli.session import Session, cluster_options, confirm, read_properties, without_references, yes_option
from ottla.client.admin import AdminClient
from ottla.host.references import own_config

__all__ = ["join", "leave", "show_findings"]

_FILE = click.Path(exists=True, dir_okay=False)


@click.command(
    help="Let a new node join a running cluster, on its host: check, format its directories, start it, wait until it "
    "is registered, and make its controller a voter. Repeat the command after an interruption; the way back is "
    "'ottla migrate leave'."
)
@click.option("-c", "--config", type=_FILE, required=True, metavar="FILE", help="The new node's server.properties.")
@click.option(
    "--to", type=click.Choice([OTTLA, KAFKA]), default=OTTLA, help="The software of the node.  [default: ottla]"
)
@click.option("--start", "start_command", required=True, metavar="COMMAND", help="How the node is started.")
@click.option("--wait", type=click.FloatRange(1), default=300.0, metavar="S", help="For each step.  [default: 300]")
@click.option("--dry-run", is_flag=True, help="Only check, and show the steps.")
@yes_option
@cluster_options
def join(session: Session, config: str, to: str, start_command: str, wait: float, dry_run: bool, yes: bool) -> int:
    from ottla.cli.logic.migration_members import Joining

    properties = without_references(read_properties(config), config)

    async def work(admin: AdminClient) -> None:
        show_findings(session.output, await _findings(admin, properties, to))
        if session.output.failed:
            raise Failure("The node does not join: something has to be mended first.")
        own = own_config(properties)
        session.output.say(f"Node {own.node_id} is started with: {start_command}")
        if dry_run:
            return
        confirm(f"Let node {own.node_id} join?", yes=yes)
        joining = Joining(admin, own, wait, session.output.say)
        await joining.format()
        await joining.start(start_command)
        await joining.vote()
        session.output.emit({"node": own.node_id, "joined": True})

    return session.run(work)


async def _findings(admin: AdminClient, properties: dict[str, str], to: str) -> list[Finding]:
    findings = check_file(properties, to=to)
    if any(finding.severity == WRONG for finding in findings):
        return findings
    about_directories, known = check_directories(properties, may_be_new=True)
    cluster = await admin.cluster.describe(fenced=True)
    features, groups = await admin.cluster.features(), await admin.groups.find()
    findings += about_directories
    findings += check_cluster(features, groups, cluster_id=cluster.cluster_id, known=known, to=to)
    quorum = await admin.cluster.quorum()
    return findings + check_joining(own_config(properties), cluster, quorum, is_new=known is None)


@click.command(
    help="Take a node out of a running cluster: move its replicas to the others, take away its vote, stop it, and "
    "forget it. Repeat the command after an interruption. Its data stays on its disks."
)
@click.argument("node_id", type=click.IntRange(0), metavar="NODE")
@click.option("--stop", "stop_command", required=True, metavar="COMMAND", help="How the node is stopped.")
@click.option("--throttle", type=click.IntRange(1), metavar="B/S", help="Bytes per second of a broker.")
@click.option("--wait", type=click.FloatRange(1), default=300.0, metavar="S", help="For the stop.  [default: 300]")
@click.option("--dry-run", is_flag=True, help="Only check, and show what would move.")
@yes_option
@cluster_options
def leave(
    session: Session,
    node_id: int,
    stop_command: str,
    throttle: int | None,
    wait: float,
    dry_run: bool,
    yes: bool,
) -> int:
    from ottla.cli.logic.migration_members import Leaving

    output = session.output

    async def work(admin: AdminClient) -> None:
        cluster, quorum = await admin.cluster.describe(fenced=True), await admin.cluster.quorum()
        # Observers are excluded, because the quorum still lists an observer for a while after it has left.
        known = {node.node_id for node in cluster.brokers} | {voter.node_id for voter in quorum.voters}
        if node_id not in known:
            raise Failure(f"There is no broker or voter {node_id}; there are {', '.join(map(str, sorted(known)))}.")
        show_findings(output, check_leaving(node_id, cluster, quorum))
        if output.failed:
            raise Failure("The node stays: something has to be mended first.")
        leaving = Leaving(admin, node_id, wait, throttle, output.say)
        held, plan, steps = await leaving.plan()
        moves = f"{size(int(plan.size_bytes))} in {counted(len(steps), 'step')}"
        output.say(f"Node {node_id} has replicas of {counted(len(held), 'partition')}: {moves} go to other brokers.")
        output.say(f"It is stopped with: {stop_command}")
        if dry_run:
            return
        confirm(f"Take node {node_id} out of the cluster?", yes=yes)
        await leaving.drain()
        await leaving.end_vote()
        await leaving.stop(stop_command)
        await leaving.forget()
        output.say(
            f"Node {node_id} has left. Where controller.quorum.bootstrap.servers or a client names it, put the address "
            "of another node, before the next restart."
        )
        output.emit({"node": node_id, "left": True, "partitions": len(held)})

    return session.run(work)


def show_findings(output: Output, findings: list[Finding]) -> None:
    output.emit({"findings": [json_fields(finding) for finding in findings]})
    output.failed |= any(finding.severity == WRONG for finding in findings)
    output.table(
        ("", "WHAT", "WHAT TO DO"),
        [(finding.severity, finding.what, finding.fix) for finding in findings],
        fold=(1, 2),
        none="Nothing stands in the way.",
    )
