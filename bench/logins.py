"""Logins over SASL: how many a broker takes in a second, and its CPU time for each.

A login is a new connection, ApiVersions, SaslHandshake, the tokens of the mechanism, and the end of the connection. The
client derives the keys of SCRAM once, because that costs it more than the whole login costs a broker.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from base64 import b64decode, b64encode
from contextlib import ExitStack
from pathlib import Path

from bench.cases import Goal, Metrics
from bench.measure import Meter
from bench.metrics import Special
from bench.runner import OURS, PEER, Result, as_result
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.brokers import ApacheKafka, OttlaFromFile
from tests.support.raw_client import RawClient
from tests.support.sasl_node import PASSWORD, SaslNode

__all__ = ["GROUP", "SPECIALS"]

GROUP = "logins"
CPU_PER_LOGIN = "broker CPU us/login"
LOGINS_PER_SECOND = "logins/s"
LOGINS = 4_000
# This number of logins before the measurement let the peer's JIT compiler finish most of its work.
WARM_UP_LOGINS = 12_000
THREADS = 4
GOALS = {CPU_PER_LOGIN: Goal(ratio=1.0)}
SALTED = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b"salt", 4096)
CLIENT_KEY = hmac.digest(SALTED, b"Client Key", "sha256")
STORED_KEY = hashlib.sha256(CLIENT_KEY).digest()


def log_in_plain(client: RawClient) -> None:
    _shake_hands(client, "PLAIN")
    _say(client, f"\0alice\0{PASSWORD}".encode())


def log_in_scram(client: RawClient) -> None:
    _shake_hands(client, "SCRAM-SHA-256")
    bare = b"n=alice,r=fyko+d2lbbFgONRv9qkxdawL"
    first = _say(client, b"n,," + bare)
    nonce = first.partition(b",")[0]
    without_proof = b"c=biws," + nonce
    signature = hmac.digest(STORED_KEY, b",".join((bare, first, without_proof)), "sha256")
    proof = bytes(a ^ b for a, b in zip(CLIENT_KEY, signature, strict=True))
    assert len(b64decode(_say(client, without_proof + b",p=" + b64encode(proof))[2:])) == 32


def _shake_hands(client: RawClient, mechanism: str) -> None:
    assert client.call(ApiVersionsRequest(), 0).error_code == 0
    assert client.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0


def _say(client: RawClient, token: bytes) -> bytes:
    answer = client.call(SaslAuthenticateRequest(auth_bytes=token), 1)
    assert answer.error_code == 0, answer.error_message
    return bytes(answer.auth_bytes)


LOGIN_KINDS = {"PLAIN": log_in_plain, "SCRAM-SHA-256": log_in_scram}


def measure_logins(mechanism: str, directory: Path, runs: int) -> Result:
    rounds: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ExitStack() as stack:
        nodes = {
            PEER: stack.enter_context(SaslNode(directory / f"kafka-{mechanism}", kind=ApacheKafka)),
            OURS: stack.enter_context(SaslNode(directory / f"ottla-{mechanism}", kind=OttlaFromFile)),
        }
        _log_in(nodes[PEER], mechanism, WARM_UP_LOGINS)
        _log_in(nodes[OURS], mechanism, LOGINS // 4)
        for _ in range(runs):
            for side, node in nodes.items():
                with Meter((node.node.pid,), ()) as meter:
                    _log_in(node, mechanism, LOGINS)
                rounds[side].append(
                    {
                        CPU_PER_LOGIN: meter.broker_cpu_s / LOGINS * 1e6,
                        LOGINS_PER_SECOND: LOGINS / meter.wall_s,
                    }
                )
    return as_result(GROUP, mechanism, GOALS, rounds)


def _log_in(node: SaslNode, mechanism: str, count: int) -> None:
    # An address of its own for every thread: with a common address, ports in TIME_WAIT would run out.
    def work(source: str) -> None:
        for _ in range(count // THREADS):
            with RawClient(node.address, source=source) as client:
                LOGIN_KINDS[mechanism](client)

    threads = [threading.Thread(target=work, args=(f"127.0.0.{2 + number}",)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _special(mechanism: str) -> Special:
    def measure(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
        return measure_logins(mechanism, directory, runs)

    return (f"{GROUP}: {mechanism}", 15.0, measure)


SPECIALS: tuple[Special, ...] = tuple(_special(mechanism) for mechanism in LOGIN_KINDS)
