"""`ottla migrate`: a cluster of Apache Kafka becomes one of Ottla: on the same files, by new nodes, or by a mirror."""

from __future__ import annotations

import time
from typing import Any

import click

from ottla.cli.commands.migrate_clusters import back, copy, report, switch, verify
from ottla.cli.commands.migrate_members import join, leave, show_findings
from ottla.cli.failures import Failure
from ottla.cli.logic.doctor_checks import examine
from ottla.cli.logic.doctor_facts import gather
from ottla.cli.logic.doctor_finding import WRONG, Finding
from ottla.cli.logic.migration_checks import KAFKA, OTTLA, check_cluster, check_directories, check_file, check_health
from ottla.cli.logic.migration_steps import NodeChange, is_running
from ottla.cli.session import Session, cluster_options, confirm, read_properties, without_references, yes_option
from ottla.cli.table import COMMANDS
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.host.references import own_config

__all__ = ["migrate"]

_FILE = click.Path(exists=True, dir_okay=False)


@click.group(cls=VerbGroup, verbs={}, help=COMMANDS["migrate"].help)
def migrate() -> None:
    """The verbs are below."""


for _command in (copy, verify, switch, back, report, join, leave):
    migrate.add_command(_command)


def _options(function: Any) -> Any:
    function = click.option(
        "--to",
        type=click.Choice([OTTLA, KAFKA]),
        default=OTTLA,
        help="The software that the node gets.  [default: ottla]",
    )(function)
    return click.option(
        "-c", "--config", type=_FILE, required=True, metavar="FILE", help="The node's server.properties."
    )(function)


@migrate.command(
    help="Say whether a node can change its software, without changing anything. Run it on the node's host."
)
@_options
@cluster_options
def check(session: Session, config: str, to: str) -> int:
    properties = without_references(read_properties(config), config)

    async def work(admin: AdminClient) -> None:
        findings = await _findings(admin, properties, to)
        if not any(finding.severity == WRONG for finding in findings):
            facts = await gather(admin, seconds=0)
            findings += check_health(
                examine(facts), facts, node_id=own_config(properties).node_id, now_ms=time.time() * 1000
            )
        show_findings(session.output, findings)

    return session.run(work)


@migrate.command(
    help="Change the software of one node, on its host: check, stop, start, and wait until it is back. The directory "
    "and the properties file stay as they are. Change one node after the other; the way back is the same command with "
    "--to kafka."
)
@_options
@click.option("--stop", "stop_command", required=True, metavar="COMMAND", help="How the node is stopped now.")
@click.option("--start", "start_command", required=True, metavar="COMMAND", help="How the other software is started.")
@click.option("--wait", type=click.FloatRange(1), default=300.0, metavar="S", help="For each step.  [default: 300]")
@click.option("--dry-run", is_flag=True, help="Only check, and show the steps.")
@yes_option
@cluster_options
def node(
    session: Session,
    config: str,
    to: str,
    stop_command: str,
    start_command: str,
    wait: float,
    dry_run: bool,
    yes: bool,
) -> int:
    properties = without_references(read_properties(config), config)
    output = session.output

    async def work(admin: AdminClient) -> None:
        findings = await _findings(admin, properties, to)
        show_findings(output, findings)
        if any(finding.severity == WRONG for finding in findings):
            raise Failure("The node is left as it is: something has to be mended first.")
        own = own_config(properties)
        output.say(f"Node {own.node_id} is stopped with: {stop_command}")
        output.say(f"It is started again with: {start_command}")
        if dry_run:
            return
        confirm(f"Change node {own.node_id} to {'Ottla' if to == OTTLA else 'Apache Kafka'}?", yes=yes)
        change = NodeChange(admin, own, wait, output.say)
        await change.wait_for_health()
        stopped_at = await change.stop(stop_command)
        await change.start(start_command)
        await change.wait_until_back()
        seconds = time.monotonic() - stopped_at
        output.say(f"It took {seconds:.1f} s from the stop until all of its replicas were in sync again.")
        output.emit({"node": own.node_id, "to": to, "seconds": round(seconds, 1)})

    return session.run(work)


async def _findings(admin: AdminClient, properties: dict[str, str], to: str) -> list[Finding]:
    """Findings about the node and the cluster, except its health, which is checked later because it may recover."""
    findings = check_file(properties, to=to)
    if any(finding.severity == WRONG for finding in findings):
        return findings
    about_directories, known = check_directories(properties)
    own = own_config(properties)
    findings += about_directories
    findings += check_cluster(
        await admin.cluster.features(),
        await admin.groups.find(),
        cluster_id=(await admin.cluster.describe()).cluster_id,
        known=known,
        to=to,
    )
    if not any(finding.severity == WRONG for finding in findings) and not is_running(own):
        findings.append(
            Finding("hint", "node", f"Node {own.node_id} does not run at the moment.", "it is only started")
        )
    return findings
