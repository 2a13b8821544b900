"""The doctor's checks of logins, certificates, schemas and mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from ottla.cli.logic.doctor_facts import ClusterFacts, GroupFacts
from ottla.cli.logic.doctor_finding import HINT, RISK, WRONG, Finding
from ottla.cli.output import duration

__all__ = [
    "certificates_that_end",
    "has_moved",
    "logins_that_fail",
    "mirrors_behind",
    "mirrors_too_slow",
    "schemas_that_break_consumers",
]

# A certificate that ends earlier is reported.
CERTIFICATE_DAYS_MIN = 14
# Fewer failed logins are human mistakes and are not reported.
FAILED_LOGINS_MIN = 20
# A higher rate of failed logins is an ongoing attack.
FAILED_LOGINS_PER_SECOND_MAX = 2.0
# A flow without heartbeats for this time was switched off on purpose.
MIRROR_FORGOTTEN_SECONDS = 86_400.0
# The reasons of schema languages can be long.
PROBLEM_CHARACTERS_MAX = 200


def certificates_that_end(facts: ClusterFacts) -> Iterator[Finding]:
    for broker, metrics in sorted(facts.metrics.items()):
        for listener, expiry in sorted(metrics.certificates.items()):
            days = (expiry - facts.now_seconds) / 86_400
            if days > CERTIFICATE_DAYS_MIN:
                continue
            state = "has expired; new connections fail" if days <= 0 else f"expires in {days:.0f} days"
            yield Finding(
                WRONG if days <= 0 else RISK,
                "certificates",
                f"The certificate of the listener {listener} on broker {broker} {state}.",
                "write a new key store to the same file: the broker reads it by itself (docs/tls.md)",
            )


def logins_that_fail(facts: ClusterFacts) -> Iterator[Finding]:
    for broker, metrics in sorted(facts.metrics.items()):
        failed, succeeded = metrics.failed_logins, metrics.successful_logins
        if failed < FAILED_LOGINS_MIN or failed <= succeeded:
            continue
        rate = facts.failed_logins_per_second.get(broker)
        is_over = rate is not None and rate <= FAILED_LOGINS_PER_SECOND_MAX
        now = "few of them now" if is_over else "and it goes on"
        yield Finding(
            HINT if is_over else RISK,
            "logins",
            f"Broker {broker} has refused {failed} logins and accepted {succeeded} since its start, {now}: somebody "
            "guesses passwords, or a client has an old one.",
            "find the address: ottla audit --stream authentication --decision refused --since 1h; then slow it down: "
            "ottla configs alter --ip ADDRESS --add-config connection_creation_rate=1",
        )


def schemas_that_break_consumers(facts: ClusterFacts) -> Iterator[Finding]:
    for breaking in facts.breaking_versions:
        stuck = sorted(entry.group.group_id for entry in facts.groups if _is_stuck_at(entry, breaking.topic))
        hurt = f" {', '.join(stuck)} of {breaking.topic} does not move." if stuck else ""
        subject = quote(breaking.subject)
        yield Finding(
            WRONG if stuck else RISK,
            "schemas",
            f"Consumers of version {breaking.before} of {breaking.subject} cannot read records of version "
            f"{breaking.version}: {breaking.problem[:PROBLEM_CHARACTERS_MAX]}.{hurt}",
            f"give consumers the new version, or stop the producer and: ottla schemas delete {subject} "
            f"--version {breaking.version}; so that it does not happen again: "
            f"ottla schemas compatibility {subject} --set full",
        )


def mirrors_behind(facts: ClusterFacts) -> Iterator[Finding]:
    for (source, target), at_ms in sorted(facts.heartbeats.items()):
        seconds = facts.now_seconds - at_ms / 1000
        if seconds <= facts.mirror_seconds_max:
            continue
        yield Finding(
            HINT if seconds > MIRROR_FORGOTTEN_SECONDS else WRONG,
            "mirrors",
            f"The mirror {source}->{target} is behind: its last heartbeat arrived {duration(seconds * 1000)} ago.",
            "see how many records are missing: ottla mirror status FILE; start the mirror again if it has stopped: "
            "ottla mirror FILE",
        )


def mirrors_too_slow(facts: ClusterFacts) -> Iterator[Finding]:
    for flow in facts.flows:
        if flow.after.records and flow.after.records >= flow.before.records:
            yield Finding(
                WRONG,
                "mirrors",
                f"The mirror {flow.name} has not copied {flow.after.records} records and does not catch up; "
                f"{flow.after.worst_partition} is the worst partition.",
                "start it if it does not run: ottla mirror FILE; if it runs, give it more workers (tasks.max) or a "
                "higher ottla.bytes.per.second",
            )


def has_moved(entry: GroupFacts) -> bool:
    """Whether the group has committed other offsets between the two samples."""
    before = {(row.topic, row.partition): row.current for row in entry.before}
    return any(before.get((row.topic, row.partition)) != row.current for row in entry.after)


def _is_stuck_at(entry: GroupFacts, topic: str | None) -> bool:
    return not has_moved(entry) and any(row.lag and row.topic == topic for row in entry.after)
