"""Incidents outside the brokers: certificates, logins, schemas and mirrors.

Every incident is visible in metrics, in the console, in the command for its subject, and in `ottla doctor`, and the
doctor's command ends it. The other incidents are in `test_incident_day.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ottla.testing
from ottla.cli.app import run as run_command
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.host.free_ports import free_ports
from ottla.model.ids import TopicPartition
from ottla.serdes import SerializationError
from ottla.serdes.avro import AvroDeserializer, AvroSerializer
from ottla.serdes.registry_client import RegistryClient
from ottla.testing.clusters import node_environment
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.mirror.flows import create, produce, properties_of
from tests.support.consoles import Browser, console_process
from tests.support.incidents import doctor_findings, judged_groups, run_words, scraped, wait_for
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.registries import RegistryProcess, registry_process
from tests.support.sasl_node import PLAIN, SaslNode
from tests.support.secured import Certificates, SecuredNode

NAMES = ("localhost", "127.0.0.1")
CERTIFICATE_SECONDS = 5.0
ATTACKER = "127.0.0.2"
COMMAND = [sys.executable, "-m", "ottla.cli.main"]


def finding_of(check: str, bootstrap: str, *options: str, severity: str) -> dict[str, str]:
    """Waits until the doctor has a finding of the check."""

    def look() -> list[dict[str, str]]:
        findings = doctor_findings(bootstrap, "--seconds", "0.5", *options)
        return [finding for finding in findings if finding["check"] == check and finding["severity"] == severity]

    return wait_for(look, f"{check} ({severity})")[0]


def wait_until_gone(check: str, bootstrap: str, *options: str) -> None:
    def look() -> bool:
        findings = doctor_findings(bootstrap, "--seconds", "0.5", *options)
        return all(finding["check"] != check for finding in findings if finding["severity"] != "hint")

    wait_for(look, f"the end of {check}")


def in_console(console: Browser, check: str, severity: str) -> dict[str, Any]:
    def look() -> list[dict[str, Any]]:
        findings = console.get("/api/doctor")["findings"]
        return [finding for finding in findings if finding["check"] == check and finding["severity"] == severity]

    return wait_for(look, f"{check} in the console")[0]


# Certificates.


def test_a_certificate_that_has_expired(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    authority = certificates.authority
    days = CERTIFICATE_SECONDS / 86_400
    store = certificates.write("node", authority.for_node(*NAMES, common_name="node", days=days))
    (port,) = free_ports(1)
    settings = {
        **certificates.server_settings(),
        "ottla.tls.reload.interval.ms": "100",
        "ottla.metrics.listener": f"127.0.0.1:{port}",
    }
    client = tmp_path / "client.properties"
    properties = {"security.protocol": "SSL", **certificates.client_properties(with_key=False)}
    client.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    with SecuredNode(tmp_path / "node", {"CLIENTS": "SSL"}, settings) as node:
        inside = node.node.bootstrap
        monitor = ["monitor", "--seconds", "0.5", "-b", node.address("CLIENTS"), "--command-config", str(client)]
        finding = finding_of("certificates", inside, severity="wrong")
        assert "The certificate of the listener CLIENTS on broker 1 has expired" in finding["what"]
        expiry = re.search(
            r'^ottla_tls_certificate_expiry_timestamp_seconds{.*listener="CLIENTS".*} (\S+)$',
            scraped(f"http://127.0.0.1:{port}/metrics"),
            re.MULTILINE,
        )
        assert expiry is not None
        assert float(expiry[1]) < time.time()
        with console_process(inside) as console:
            assert "has expired" in in_console(console.browser(), "certificates", "critical")["title"]
        refused = subprocess.run(
            [*COMMAND, *monitor, "--timeout", "3000"], capture_output=True, text=True, env=node_environment()
        )
        assert refused.returncode == 1
        assert "certificate" in refused.stderr
        assert "expired" in refused.stderr
        assert "write a new key store to the same file" in finding["fix"]
        store.write_text(authority.for_node(*NAMES, common_name="node").store)
        wait_until_gone("certificates", inside)
        assert run_command(monitor) == 0


# Logins.


class PasswordGuesser:
    """Tries passwords in turn, from its own address, until it is stopped."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.guesses = 0

    def __enter__(self) -> PasswordGuesser:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stopped.is_set():
            # A broker may close the connection of an attacker at any point.
            with contextlib.suppress(ConnectionClosed, OSError):
                self._guess()

    def _guess(self) -> None:
        with RawClient(self._address, source=ATTACKER, timeout_seconds=5.0) as client:
            client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            word = f"\0alice\0password-{self.guesses}".encode()
            client.call(SaslAuthenticateRequest(auth_bytes=memoryview(word)), 2)
            self.guesses += 1


def test_somebody_guesses_passwords(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = {
        "ottla.audit.authentication": "all",
        "ottla.audit.dir": str(tmp_path / "audit"),
        "ottla.audit.topic": "true",
        "ottla.metrics.listener": f"127.0.0.1:{port}",
        "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN} required user_alice="secret";',
    }
    with SaslNode(tmp_path / "node", settings) as node, PasswordGuesser(node.address) as guesser:
        inside = node.node.bootstrap
        finding = finding_of("logins", inside, severity="risk")
        assert "and it goes on" in finding["what"]
        failed = re.findall(
            r'^kafka_server_socket_server_metrics_failed_authentication_total{listener="CLIENTS".*} (\S+)$',
            scraped(f"http://127.0.0.1:{port}/metrics"),
            re.MULTILINE,
        )
        assert sum(map(float, failed)) >= 20
        with console_process(inside) as console:
            browser = console.browser()
            in_console(browser, "logins", "warning")
            query = "/api/audit?stream=authentication&decision=refused"
            events = wait_for(lambda: browser.get(query)["items"], "the audit in the console")
            assert {event["host"] for event in events} == {ATTACKER}
        # The first command of the fix shows the attacker's address, the second command slows the attacker down.
        audit, limit = re.findall(r"ottla ([a-z][^;]*)", finding["fix"])
        code, printed = run_words(*audit.split(), "--json", "-b", inside)
        assert code == 0
        assert {event["address"] for event in json.loads(printed)} == {ATTACKER}
        # Clients with other addresses are served meanwhile.
        code, printed = run_words("monitor", "--seconds", "1", "--json", "-b", inside)
        assert code == 0
        assert json.loads(printed.splitlines()[-1])["availability"] == 1.0
        assert run_words(*limit.replace("ADDRESS", ATTACKER).split(), "-b", inside)[0] == 0
        finding = finding_of("logins", inside, severity="hint")
        assert "few of them now" in finding["what"]
        assert guesser.guesses >= 20


# Schemas.


def schema_of(kind: str) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": [{"name": "amount", "type": kind}]})


class Billing:
    """A consumer that knows one version of a schema. It never skips a record that it cannot read."""

    def __init__(self, bootstrap: str, registry: RegistryClient, thread: Executor) -> None:
        self._thread = thread
        self._client = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))
        self._deserializer = AvroDeserializer(schema_of("int"), client=registry)
        self.amounts: list[int] = []
        self.failures: list[str] = []

    async def run(self, until: asyncio.Event) -> None:
        consumer_settings = ConsumerSettings(group_id="billing", auto_commit=False, auto_offset_reset="earliest")
        async with Consumer(self._client, consumer_settings) as consumer:
            await consumer.subscribe(["orders"])
            while not until.is_set():
                for record in await consumer.poll(100, max_records=1):
                    place = TopicPartition(record.topic, record.partition)
                    try:
                        value = await self._decoded(record.value)
                    except SerializationError as error:
                        self.failures.append(str(error))
                        consumer.seek(place, record.offset)
                        break
                    self.amounts.append(value["amount"])
                    await consumer.commit({place: record.offset + 1})

    async def _decoded(self, data: bytes | None) -> dict[str, int]:
        """Decodes in a thread, because the deserializer may send a request to the registry."""
        decode = self._deserializer.deserialize
        value: dict[str, int] = await asyncio.get_running_loop().run_in_executor(self._thread, decode, "orders", data)
        return value


async def send_order(bootstrap: str, registry: RegistryClient, thread: Executor, kind: str, amount: object) -> None:
    encode = AvroSerializer(schema_of(kind), client=registry).serialize
    value = await asyncio.get_running_loop().run_in_executor(thread, encode, "orders", {"amount": amount})
    async with Producer(ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))) as producer:
        await producer.send_and_wait("orders", value, partition=0)


@contextmanager
def shop() -> Iterator[tuple[str, str, RegistryProcess, Browser]]:
    """A cluster with a topic, its registry, and its console: (bootstrap, page of metrics, registry, console)."""
    settings = {"group.initial.rebalance.delay.ms": "0", "ottla.metrics.listener": "127.0.0.1:0"}
    with (
        ottla.testing.cluster(settings=settings) as cluster,
        registry_process(cluster.bootstrap) as registry,
        console_process(cluster.bootstrap, "--registry", registry.url) as console,
    ):
        assert run_command(["topics", "create", "orders", "-b", cluster.bootstrap]) == 0
        page = cluster.nodes[0].metrics_url
        assert page is not None
        yield cluster.bootstrap, page, registry, console.browser()


def test_a_schema_that_breaks_a_consumer() -> None:
    with shop() as (bootstrap, page, registry, console), ThreadPoolExecutor(1) as thread:
        assert run_command(["schemas", "compatibility", "--set", "none", "-u", registry.url]) == 0
        client = RegistryClient(registry.url)
        options = ("--registry", registry.url)

        async def break_it() -> list[dict[str, str]]:
            billing, stopped = Billing(bootstrap, client, thread), asyncio.Event()
            running = asyncio.ensure_future(billing.run(stopped))
            for kind, amount in (("int", 1), ("string", "two"), ("int", 3)):
                await send_order(bootstrap, client, thread, kind, amount)
            async with asyncio.timeout(60):
                while not billing.failures:
                    assert not running.done(), running.result()
                    await asyncio.sleep(0.02)
            assert await asyncio.to_thread(judged_groups, bootstrap, "^billing$") == {"billing": "STALLED"}
            text = await asyncio.to_thread(scraped, page)
            assert 'kafka_consumergroup_lag{consumergroup="billing",topic="orders",partition="0"} 2\n' in text
            look = lambda check: finding_of(check, bootstrap, *options, severity="wrong")  # noqa: E731
            findings = [await asyncio.to_thread(look, check) for check in ("schemas", "groups")]
            finding = await asyncio.to_thread(in_console, console, "schemas", "critical")
            assert "billing of orders does not move" in finding["title"]
            assert finding["command"] == "ottla schemas delete orders-value --version 2"
            stopped.set()
            await running
            assert billing.amounts == [1]
            assert "the reader's schema cannot read values of schema 2" in billing.failures[0]
            return findings

        schemas, groups = asyncio.run(break_it())
        assert "Consumers of version 1 of orders-value cannot read records of version 2" in schemas["what"]
        difference = console.get("/api/schemas/orders-value/diff?from=1&to=2")["lines"]
        assert {line["kind"] for line in difference} >= {"added", "removed"}
        delete, forbid = re.findall(r"ottla (schemas [^;]*)", schemas["fix"])
        for command in (delete, forbid):
            assert run_command([*command.split(), "-u", registry.url]) == 0
        (skip,) = re.findall(r"ottla (groups .*)$", groups["fix"])
        assert run_command([*skip.split(), "-b", bootstrap]) == 0
        wait_until_gone("schemas", bootstrap, *options)
        status, _ = registry.ask("POST", "/subjects/orders-value/versions", {"schema": schema_of("string")})
        assert status == 409

        async def read_on() -> None:
            billing, stopped = Billing(bootstrap, client, thread), asyncio.Event()
            running = asyncio.ensure_future(billing.run(stopped))
            async with asyncio.timeout(60):
                while not billing.amounts:
                    await asyncio.sleep(0.02)
            stopped.set()
            await running
            assert (billing.amounts, billing.failures) == ([3], [])

        asyncio.run(read_on())
        wait_until_gone("groups", bootstrap, *options)
        # Every thread has its own connections.
        thread.submit(client.close).result()


# Mirrors.


@contextmanager
def mirror_process(file: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, "mirror", str(file), "--threads"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=node_environment(),
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready a->b\n"
            yield running
        finally:
            running.kill()


def mirror_status(bootstrap: str, file: Path) -> dict[str, Any]:
    code, printed = run_words("monitor", "mirrors", "-c", str(file), "-n", "1", "--json", "-b", bootstrap)
    assert code == 0
    (row,) = json.loads(printed)
    return dict(row)


@pytest.mark.faults
def test_a_mirror_that_falls_behind(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    with ottla.testing.cluster() as source, ottla.testing.cluster() as target:
        properties = properties_of(source, target, {"emit.heartbeats.enabled": "true", "topics": "t"})
        file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        options = ("--mirror-seconds", "4")
        asyncio.run(create(source, "t", partitions=1))
        asyncio.run(produce(source.bootstrap, "t", range(100)))
        with mirror_process(file):
            wait_for(lambda: copied(target.bootstrap, file), "the end of the copies")
            wait_until_gone("mirrors", target.bootstrap, *options)
        # The mirror was killed, and producers continue to write.
        asyncio.run(produce(source.bootstrap, "t", range(100, 150)))
        finding = finding_of("mirrors", target.bootstrap, *options, severity="wrong")
        assert "The mirror a->b is behind" in finding["what"]
        behind = mirror_status(target.bootstrap, file)
        assert behind["lagRecords"] >= 50
        assert behind["lagSeconds"] > 4
        check_mirror_metrics(target.bootstrap, file)
        with console_process(target.bootstrap) as console:
            (flow,) = console.browser().get("/api/mirrors")["items"]
            assert (flow["source"], flow["target"]) == ("a", "b")
            assert flow["age_ms"] > 4_000
        words = (
            "reconcile",
            "-s",
            "source=t",
            "-s",
            f"copy=a.t@{target.bootstrap}",
            "--settle",
            "0s",
            "--bucket",
            "1s",
        )
        assert run_words(*words, "-b", source.bootstrap)[0] == 1
        (status, start) = re.findall(r"ottla (mirror [^;]*)", finding["fix"])
        code, printed = run_words(*status.replace("FILE", str(file)).split(), "--json")
        assert (code, json.loads(printed)[0]["records"] >= 50) == (0, True)
        assert start == "mirror FILE"
        with mirror_process(file):
            wait_for(lambda: copied(target.bootstrap, file), "the end of the copies")
            wait_until_gone("mirrors", target.bootstrap, *options)
            assert run_words(*words, "-b", source.bootstrap)[0] == 0


@pytest.mark.faults
def test_a_mirror_that_is_too_slow(tmp_path: Path) -> None:
    """The mirror is alive, but copies less than producers write."""
    slow, fast = tmp_path / "slow.properties", tmp_path / "fast.properties"
    with ottla.testing.cluster() as source, ottla.testing.cluster() as target:
        for file, limit in ((slow, "1"), (fast, "0")):
            properties = properties_of(source, target, {"topics": "t", "ottla.bytes.per.second": limit})
            file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        asyncio.run(create(source, "t", partitions=1))
        with mirror_process(slow):
            for beginning in range(0, 500, 100):
                asyncio.run(produce(source.bootstrap, "t", range(beginning, beginning + 100)))
            finding = finding_of("mirrors", target.bootstrap, "--mirror", str(slow), severity="wrong")
            assert "does not catch up; t-0 is the worst partition" in finding["what"]
            assert "a higher ottla.bytes.per.second" in finding["fix"]
            (flow,) = json.loads(run_words("mirror", "status", str(slow), "--json")[1])
            assert flow["records"] > 0
        with mirror_process(fast):
            wait_until_gone("mirrors", target.bootstrap, "--mirror", str(fast))
            wait_for(lambda: not mirror_status(target.bootstrap, fast)["lagRecords"], "the end of the copies")


def copied(bootstrap: str, file: Path) -> bool:
    """True if at most two records are missing: heartbeats are records, too, and the newest may be on its way."""
    status = mirror_status(bootstrap, file)
    return status["lagSeconds"] is not None and status["lagRecords"] <= 2


def check_mirror_metrics(bootstrap: str, file: Path) -> None:
    words = ["monitor", "mirrors", "-c", str(file), "--metrics-port", "0", "-i", "0.5", "-b", bootstrap]
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=node_environment()
    ) as running:
        try:
            assert running.stderr is not None
            url = running.stderr.readline().split()[-1]
            name = 'ottla_monitor_mirror_lag_seconds{source="a",target="b"}'
            text = wait_for(lambda: page if name in (page := scraped(url)) else "", "the lag in the metrics")
            assert float(text.partition(f"{name} ")[2].split()[0]) > 4
        finally:
            running.kill()
