"""The cost of rights and quotas: the CPU time of a request with 1,000 ACLs or 100 quotas, beside a node without.

The node without stands in the place of Apache Kafka. The client of both is no super user: its right is one of the
ACLs, beside others about the same topics.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench import micro
from bench.cases import Goal, Metrics
from bench.metrics import Special
from bench.runner import OURS, PEER, Result, alternating, as_result
from ottla.wire.framing import request_parts
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest

__all__ = ["SPECIALS"]

GROUP = "rights"
CASES = ("produce 1x100B, 5 in flight", "produce 16 KiB, 5 in flight", "fetch one 16 KiB batch", "fetch 112 KiB")
TOGETHER = "one of each, µs"
GOAL = Goal(ratio=1.05)
# Many short rounds per run; the best round is the one with the least interference.
ROUNDS = 20
ROUND_SHARE = 4

ACLS = 1_000
QUOTAS = 100
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Lets the client create the ACLs; topics have ACLs afterwards.
    "allow.everyone.if.no.acl.found": "true",
}
_CREATE_ACLS, _ALTER_CLIENT_QUOTAS = 30, 49
_TOPIC, _GROUP, _LITERAL, _PREFIXED, _ALL, _READ, _ALLOW = 2, 3, 3, 4, 2, 3, 3


def _add_acls(port: int) -> None:
    def acl(name: str, kind: int, pattern: int, principal: str, operation: int) -> AclCreation:
        return AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=pattern,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=_ALLOW,
        )

    acls = [acl("micro", _TOPIC, _PREFIXED, "User:ANONYMOUS", _ALL)]
    acls += [acl("micro", _TOPIC, _LITERAL, f"User:reader-{number}", _READ) for number in range(50)]
    acls += [acl("m" * (1 + number % 20), _TOPIC, _PREFIXED, f"User:{number}", _READ) for number in range(150)]
    acls += [acl(f"group-{number}", _GROUP, _LITERAL, f"User:{number}", _READ) for number in range(200)]
    acls += [acl(f"topic-{number}", _TOPIC, _LITERAL, f"User:{number}", _ALL) for number in range(ACLS - len(acls))]
    _call(port, _CREATE_ACLS, 3, CreateAclsRequest(creations=acls))


def _add_quotas(port: int) -> None:
    entries = [
        RequestEntryData(
            entity=[EntityData(entity_type="client-id", entity_name="micro" if number == 0 else f"client-{number}")],
            ops=[OpData(key=key, value=1e12) for key in ("producer_byte_rate", "consumer_byte_rate")],
        )
        for number in range(QUOTAS)
    ]
    _call(port, _ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries=entries))


def _call(port: int, api_key: int, version: int, request: CreateAclsRequest | AlterClientQuotasRequest) -> None:
    client = micro.Client(port)
    client.call(micro.joined(request_parts(api_key, version, 1, "micro", request)))
    client.close()


def _special(name: str, settings: dict[str, str], add: Callable[[int], None]) -> Special:
    def measure(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
        cases = [
            replace(case, in_flight=5, requests=case.requests // ROUND_SHARE)
            for case in micro.CASES
            if case.name in CASES
        ]
        root = package.parent.parent
        figures: dict[str, Metrics] = {PEER: {}, OURS: {}}
        with ExitStack() as stack:
            nodes = {side: stack.enter_context(micro.node(root, own)) for side, own in ((PEER, {}), (OURS, settings))}
            for _, port in nodes.values():
                micro.prepare(port)
            add(nodes[OURS][1])
            for case in cases:
                rounds = [
                    {side: micro.measure(case, *nodes[side]) for side in alternating(list(nodes), number)}
                    for number in range(runs * ROUNDS)
                ]
                for side in nodes:
                    figures[side][f"{case.name}, µs"] = min(round_figures[side] for round_figures in rounds)
        measured = {side: [{**metrics, TOGETHER: sum(metrics.values())}] for side, metrics in figures.items()}
        return as_result(GROUP, name, {TOGETHER: GOAL}, measured)

    return f"{GROUP}: {name}", 30.0, measure


SPECIALS: tuple[Special, ...] = (
    _special(f"CPU of a request with {ACLS:,} ACLs, beside a node without an authorizer", AUTHORIZER, _add_acls),
    _special(f"CPU of a request with {QUOTAS} quotas, beside a node without", {}, _add_quotas),
)
