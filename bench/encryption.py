"""Producing and consuming over TLS: the CPU time of a broker per GB, which is mostly that of its encryption.

Both brokers have the same certificate, on the curve P-256, and choose their cipher suite with the same client,
librdkafka. Neither can send files without reading them.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.cases import CPU_PER_GB, KIB, Goal, Metrics, per_gigabyte, topic_numbers
from bench.clients import Outcome, native_consume, native_produce, temporary_topic
from bench.measure import Meter
from bench.metrics import Special
from bench.runner import OURS, PEER, Result, as_result
from tests.support.brokers import ApacheKafka, OttlaFromFile
from tests.support.secured import Certificates, SecuredNode

__all__ = ["GROUP", "SPECIALS"]

GROUP = "TLS (librdkafka)"
GOALS = {CPU_PER_GB: Goal(ratio=1.0)}
RECORD_BYTES = 1024
RECORDS = 150_000
PARTITIONS = 6
# This number of records before the measurement let the peer's JIT compiler finish most of its work.
WARM_UP_ROUNDS = 3


def measure_tls(name: str, directory: Path, runs: int) -> Result:
    certificates = Certificates(directory / "certificates")
    settings = certificates.server_settings()
    rounds: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ExitStack() as stack:
        nodes = {
            side: stack.enter_context(
                SecuredNode(directory / f"{side}-{name}", {"CLIENTS": "SSL"}, settings, kind=kind)
            )
            for side, kind in ((PEER, ApacheKafka), (OURS, OttlaFromFile))
        }
        for _ in range(WARM_UP_ROUNDS):
            _round(nodes[PEER], certificates, name)
        _round(nodes[OURS], certificates, name)
        for _ in range(runs):
            for side, node in nodes.items():
                rounds[side].append(_round(node, certificates, name))
    return as_result(GROUP, name, GOALS, rounds)


def _round(node: SecuredNode, certificates: Certificates, name: str) -> Metrics:
    client = {"security.protocol": "SSL", "ssl.ca.location": str(certificates.trusted)}
    produce = {"acks": "1", "batch.size": str(128 * KIB), "linger.ms": "5", **client}
    address = node.address("CLIENTS")

    def write(topic: str) -> Outcome:
        return native_produce(
            address, topic, records=RECORDS, record_size=RECORD_BYTES, partitions=PARTITIONS, settings=produce
        )

    with temporary_topic(node.node.bootstrap, f"tls-{next(topic_numbers)}", PARTITIONS) as topic:
        if name == "produce":
            with Meter((node.node.pid,), ()) as meter:
                outcome = write(topic)
        else:
            write(topic)
            with Meter((node.node.pid,), ()) as meter:
                outcome = native_consume(address, topic, partitions=PARTITIONS, records=RECORDS, settings=client)
    return {**per_gigabyte(meter, RECORDS * RECORD_BYTES), "records/s": outcome.records_per_s}


def _special(name: str) -> Special:
    def measure(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
        return measure_tls(name, directory, runs)

    return (f"{GROUP}: {name}", 25.0, measure)


SPECIALS: tuple[Special, ...] = (_special("produce"), _special("consume"))
