"""Attackers at a listener of SASL_SSL, and an honest client that logs in and writes there all the time.

The figures are the p99 of the honest client's requests: without attackers, while the same attackers attack another node
of this machine, and during the attack on its own node. The second figure shows what the attackers cost as programs that
need a processor. The figures depend on the machine, so what is asserted is how the node behaves: no request of the
honest client fails, no turn of the loop is long, memory is bounded, and no attacker gets in. On a busy machine
`chrt -r 5` before the command gives the node and its client the processor first.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.faults.test_hostile_tls import AsCluster
from tests.support.hostile import PERCENTILES, Percentiles, Siege, create, measured_turns
from tests.support.secured import Certificates, SecuredNode
from tests.support.tls_login_attacks import ATTACKS, SLOW_LOGINS, TlsClient, attack_until, open_idle_connections

pytestmark = pytest.mark.faults

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = "alice-secret"
ATTACKERS = 2
ATTACK_SECONDS_MAX = 8.0
USUAL_SECONDS = 4.0
TURNS_SECONDS = 3.0
PAUSE_SECONDS = 0.002
IDLE_CONNECTIONS = 10_000
# Both ends of an idle connection are in memory; this is for the node's end alone.
IDLE_BYTES_MAX = 100_000


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def settings_of(certificates: Certificates) -> dict[str, str]:
    return {
        **certificates.server_settings(),
        "listener.name.clients.ssl.client.auth": "requested",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN} required user_alice="{PASSWORD}";',
        "connection.failed.authentication.delay.ms": "100",
    }


@pytest.fixture(scope="module")
def node(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    settings = settings_of(certificates)
    with SecuredNode(tmp_path_factory.mktemp("node"), {"CLIENTS": "SASL_SSL"}, settings) as running:
        create(running.node.bootstrap, "orders")
        yield running


@pytest.fixture(scope="module")
def measured_node(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    """A node that notes the turns of its loop, which is slower than the loop of other nodes."""
    measured = SecuredNode(tmp_path_factory.mktemp("measured"), {"CLIENTS": "SASL_SSL"}, settings_of(certificates))
    with measured_turns(), measured as running:
        create(running.node.bootstrap, "orders")
        yield running


@pytest.fixture(scope="module")
def other_node(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    """The target of attackers that only take processor time away."""
    settings = settings_of(certificates)
    with SecuredNode(tmp_path_factory.mktemp("other"), {"CLIENTS": "SASL_SSL"}, settings) as running:
        yield running


class HonestLogin:
    """Writes records over TLS, on one connection and sometimes on a new one, and notes how long each takes."""

    def __init__(self, node: SecuredNode, certificates: Certificates) -> None:
        self._port, self._trusted = node.ports["CLIENTS"], str(certificates.trusted)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.times: list[float] = []
        self.longest_seconds = 0.0
        self.failure: BaseException | None = None

    def __enter__(self) -> HonestLogin:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    @property
    def answers(self) -> int:
        return len(self.times)

    @property
    def p99_ms(self) -> float:
        return sorted(self.times)[int(len(self.times) * 0.99)] * 1000

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                with TlsClient(self._port, self._trusted) as client:
                    assert client.log_in("alice", PASSWORD) == 0
                    for _ in range(500):
                        self._write(client)
                        if self._ends.wait(PAUSE_SECONDS):
                            break
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error

    def _write(self, client: TlsClient) -> None:
        batch = bytes(build_batch([Record(offset=0, timestamp=int(time.time() * 1000), key=None, value=b"x" * 100)]))
        data = [
            TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
        ]
        began = time.monotonic()
        answer = client.call(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data), 12)
        taken = time.monotonic() - began
        assert answer.responses[0].partition_responses[0].error_code == 0
        self.times.append(taken)
        self.longest_seconds = max(self.longest_seconds, taken)


def siege(attack: str, node: SecuredNode, honest: HonestLogin, **bounds: Any) -> Siege:
    cluster: Any = AsCluster(node)
    new_siege = Siege(attack, cluster, **bounds)
    new_siege.honest = honest  # type: ignore[assignment]
    return new_siege


def usual(node: SecuredNode, certificates: Certificates) -> float:
    """The p99 of an honest client without attackers, in milliseconds."""
    with HonestLogin(node, certificates) as honest:
        time.sleep(USUAL_SECONDS)
    assert honest.failure is None
    return honest.p99_ms


@contextmanager
def attackers(
    attack: str, node: SecuredNode, certificates: Certificates, seconds: float, directory: Path
) -> Iterator[Callable[[], int]]:
    """Runs attackers and waits for them at the end. Yields a function for the number of their attempts."""
    directory.mkdir()
    spawn = multiprocessing.get_context("spawn")
    counts = [directory / f"attempts-{number}" for number in range(ATTACKERS)]
    arguments = (attack, node.ports["CLIENTS"], str(certificates.trusted), seconds)
    running = [spawn.Process(target=attack_until, args=(*arguments, str(count))) for count in counts]
    for attacker in running:
        attacker.start()
    yield lambda: sum(int(count.read_text()) for count in counts)
    for attacker in running:
        attacker.join()


def judge(
    attack: str,
    usual_ms: float,
    honest: HonestLogin,
    node: SecuredNode,
    note: str = "",
    *,
    beside_ms: float | None = None,
) -> None:
    PERCENTILES.append(Percentiles(attack, usual_ms, beside_ms, honest.p99_ms, note))
    assert honest.failure is None, honest.failure
    assert PASSWORD not in node.output
    assert "guess-" not in node.output


@pytest.mark.parametrize("attack", [*ATTACKS, SLOW_LOGINS])
def test_honest_clients_are_served_beside_attackers(
    node: SecuredNode,
    other_node: SecuredNode,
    certificates: Certificates,
    attack: str,
    faults_seconds: float,
    tmp_path: Path,
) -> None:
    usual_ms = usual(node, certificates)
    seconds = min(faults_seconds, ATTACK_SECONDS_MAX)
    with (
        HonestLogin(node, certificates) as beside,
        attackers(attack, other_node, certificates, seconds, tmp_path / "beside"),
    ):
        pass
    assert beside.failure is None
    honest = HonestLogin(node, certificates)
    with (
        siege(f"{attack} over TLS", node, honest),
        attackers(attack, node, certificates, seconds, tmp_path / "attack") as attempts,
    ):
        pass
    assert attempts()
    judge(attack, usual_ms, honest, node, f"{attempts()} attempts", beside_ms=beside.p99_ms)


@pytest.mark.parametrize("attack", [*ATTACKS, SLOW_LOGINS])
def test_no_turn_of_the_loop_is_long(
    measured_node: SecuredNode, certificates: Certificates, attack: str, tmp_path: Path
) -> None:
    honest = HonestLogin(measured_node, certificates)
    with (
        siege(f"{attack} over TLS", measured_node, honest),
        attackers(attack, measured_node, certificates, TURNS_SECONDS, tmp_path / "attack"),
    ):
        pass
    assert honest.failure is None, honest.failure


def test_a_certificate_expires_while_its_client_is_connected(node: SecuredNode, certificates: Certificates) -> None:
    """The connection stays, as in Apache Kafka; a new one with the certificate is refused."""
    usual_ms = usual(node, certificates)
    valid_seconds = 8.0
    store = certificates.write("soon", certificates.authority.for_client("soon", days=valid_seconds / 86_400))
    created_at = time.monotonic()
    arguments = (node.ports["CLIENTS"], str(certificates.trusted))
    honest = HonestLogin(node, certificates)
    with siege("a certificate that expires", node, honest), TlsClient(*arguments, store=str(store)) as early:
        assert early.log_in("alice", PASSWORD) == 0
        time.sleep(max(created_at + valid_seconds + 2 - time.monotonic(), 0))
        honest._write(early)
        with pytest.raises((ssl.SSLError, OSError)), TlsClient(*arguments, store=str(store)) as late:
            late.log_in("alice", PASSWORD)
    judge("a certificate that expires", usual_ms, honest, node)


def test_ten_thousand_idle_connections(node: SecuredNode, certificates: Certificates, tmp_path: Path) -> None:
    """Complete TLS handshakes, and then nothing."""
    count = min(IDLE_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1_000)
    usual_ms = usual(node, certificates)
    before = resident_bytes(node)
    ready, ends = tmp_path / "ready", tmp_path / "ends"
    arguments = (node.ports["CLIENTS"], str(certificates.trusted), count, str(ready), str(ends))
    idle = multiprocessing.get_context("spawn").Process(target=with_many_files, args=arguments)
    idle.start()
    deadline = time.monotonic() + 600
    while not ready.exists():
        assert idle.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    bytes_per_connection = (resident_bytes(node) - before) / count
    honest = HonestLogin(node, certificates)
    try:
        with siege(f"{count} idle TLS connections", node, honest, memory_bytes_max=2 << 30):
            time.sleep(USUAL_SECONDS)
    finally:
        ends.touch()
        idle.join()
    judge(
        "idle TLS connections",
        usual_ms,
        honest,
        node,
        f"{count} connections, {bytes_per_connection / 1000:.1f} kB each",
    )
    assert bytes_per_connection < IDLE_BYTES_MAX


def with_many_files(*arguments: Any) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    open_idle_connections(*arguments)


def resident_bytes(node: SecuredNode) -> int:
    pages = int(Path(f"/proc/{node.node.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
