"""`ottla doctor`: checks a cluster or a properties file, and reports faults and risks with the fix for each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import click

from ottla.cli.logic.doctor_checks import CLUSTER_CHECKS, examine
from ottla.cli.logic.doctor_config import examine_properties
from ottla.cli.logic.doctor_facts import gather
from ottla.cli.logic.doctor_files import show_damaged_segments
from ottla.cli.logic.doctor_finding import Finding
from ottla.cli.mirror_files import read_mirror_file
from ottla.cli.output import counted, json_fields
from ottla.cli.session import Session, authority_option, cluster_options, read_properties, trusted_authority
from ottla.client.admin import AdminClient
from ottla.serdes.registry_client import RegistryClient

__all__ = ["doctor"]

PATIENCE_MS = 5_000

STYLES = {"wrong": "bold red", "risk": "yellow", "hint": "cyan"}


@click.command(help="Find faults and risks, with the command that fixes each. The exit code is 1 if there is a fault.")
@click.option(
    "-c", "--config", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Check this properties file."
)
@click.option(
    "--log-dir",
    "log_directories",
    type=click.Path(exists=True, file_okay=False),
    multiple=True,
    metavar="DIR",
    help="Check every byte of the segments in this log directory of a stopped node; may be repeated.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=3.0,
    metavar="S",
    help="Time between two samples.  [default: 3]",
)
@click.option(
    "--transaction-minutes", type=click.FloatRange(0), default=15.0, metavar="MIN", help="Open for longer hangs."
)
@click.option(
    "--mirror-seconds",
    type=click.FloatRange(0),
    default=60.0,
    metavar="S",
    help="A mirror with older heartbeats is behind.  [default: 60]",
)
@click.option(
    "--mirror",
    "mirror_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The file of 'ottla mirror': check whether its flows catch up.",
)
@click.option(
    "--registry", "registry_url", envvar="OTTLA_REGISTRY", metavar="URL", help="Check the schemas of this registry."
)
@authority_option("OTTLA_REGISTRY_CA")
@click.option("--registry-user", envvar="OTTLA_REGISTRY_USER", metavar="NAME:PASSWORD", help="Its login.")
@cluster_options
def doctor(
    session: Session,
    config: str | None,
    log_directories: tuple[str, ...],
    seconds: float,
    transaction_minutes: float,
    mirror_seconds: float,
    mirror_file: str | None,
    registry_url: str | None,
    authority: str | None,
    registry_user: str | None,
) -> int:
    if log_directories:
        show_damaged_segments(session.output, log_directories)
        return session.output.exit_code
    if config is not None:
        findings = examine_properties(read_properties(config))
        _show(session, findings, [], looked="the file")
        return session.output.exit_code

    # A broker that hangs must not hide the findings about the other brokers.
    session.settings = replace(
        session.settings,
        api_timeout_ms=min(session.settings.api_timeout_ms, PATIENCE_MS),
        connect_timeout_ms=min(session.settings.connect_timeout_ms, PATIENCE_MS // 2),
    )

    async def work(admin: AdminClient) -> None:
        facts = await gather(
            admin,
            seconds=seconds,
            transaction_silence_ms=int(transaction_minutes * 60_000),
            mirror_seconds_max=mirror_seconds,
            registry=_registry(registry_url, authority, registry_user),
            flows=() if mirror_file is None else read_mirror_file(mirror_file).flows,
        )
        looked = ", ".join(
            counted(len(objects), noun)
            for objects, noun in ((facts.brokers, "broker"), (facts.topics, "topic"), (facts.groups, "group"))
        )
        _show(session, examine(facts), facts.unknown, looked=f"{looked}; {len(CLUSTER_CHECKS)} checks")

    return session.run(work)


def _registry(url: str | None, authority: str | None, user: str | None) -> Callable[[], RegistryClient] | None:
    if url is None:
        return None
    name, _, password = (user or "").partition(":")
    return partial(RegistryClient, url, user=name or None, password=password, tls=trusted_authority(authority))


def _show(session: Session, findings: list[Finding], unknown: list[str], *, looked: str) -> None:
    session.output.emit({"findings": [json_fields(finding) for finding in findings], "unknown": unknown})
    session.output.failed |= any(finding.severity == "wrong" for finding in findings)
    if session.output.as_json:
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    for finding in findings:
        table.add_row(Text(finding.severity, style=STYLES[finding.severity]), Text(finding.what))
        table.add_row("", Text(f"→ {finding.fix}", style="dim"))
    for subject in unknown:
        table.add_row("", Text(f"Not looked at: {subject}", style="dim"))
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
    verdict = counted(len(findings), "finding") if findings else "Nothing is wrong"
    console.print(f"{verdict} ({looked}).")
