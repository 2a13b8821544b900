"""Pages over services that run: a registry, a Connect worker, a mirror, the audit, roles, transactions, the doctor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.cli.app import run as run_command
from ottla.client.admin import AdminClient as OttlaAdmin
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.mirror.flows import mirroring
from tests.support.background import in_background
from tests.support.connect_workers import fake_worker
from tests.support.consoles import ConsoleProcess, console_process
from tests.support.registries import registry_process

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "ottla.audit.topic": "true",
    "ottla.audit.authorization": "all",
    # A transaction without a coordinator can only be begun while verification is off.
    "transaction.partition.verification.enable": "false",
}
FIRST = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
SECOND = FIRST.replace("}]}", '}, {"name": "note", "type": ["null", "string"], "default": null}]}')
RENAMED = FIRST.replace('"id"', '"number"')
OpenPage = Callable[..., Any]

# Two clusters, a registry, a worker and a mirror take longer than `make test` may.
pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(settings=SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("payments", 1)])["payments"].result(60)
        yield running


@pytest.fixture(scope="module")
def far() -> Iterator[ottla.testing.Cluster]:
    """The cluster that is mirrored."""
    with ottla.testing.cluster() as running:
        producer = Producer({"bootstrap.servers": running.bootstrap})
        producer.produce("orders", value="mirrored")
        assert producer.flush(60) == 0
        yield running


@pytest.fixture(scope="module")
def console(
    cluster: ottla.testing.Cluster, far: ottla.testing.Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    worker = fake_worker(cluster.bootstrap, tmp_path_factory.mktemp("worker"), distributed=True)
    mirror = mirroring(far, cluster, topics="orders", emit_heartbeats_enabled="true")
    with (
        registry_process(cluster.bootstrap) as registry,
        in_background(worker, mirror) as ((running_worker, _, _), _),
        console_process(cluster.bootstrap, "--registry", registry.url, "--connect", running_worker.url) as running,
    ):
        browser = running.browser()
        source = {"connector.class": "LineSource", "file": "/orders.txt", "topic": "lines"}
        browser.change("POST", "/api/connectors", {"name": "lines", "config": source})
        failing = {**source, "fail": "the disk is full"}
        browser.change("POST", "/api/connectors", {"name": "broken", "config": failing})
        yield running


def confirm(page: Any) -> None:
    """Agrees to the plan of a dialog."""
    page.wait_for_selector("dialog[open] .plan li")
    page.click("dialog[open] footer button.primary:enabled, dialog[open] footer button.danger:enabled")
    page.wait_for_selector("dialog[open]", state="detached")


def aside(work: Callable[[Any], Any], argument: Any) -> Any:
    """Runs work with an event loop of its own in another thread: the loop of this thread belongs to the browser."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, argument).result()


def test_connectors_are_paused_resumed_and_restarted(open_page: OpenPage) -> None:
    page = open_page("/connectors")
    page.wait_for_selector("tr:has-text('broken') .badge.bad:has-text('1 of 1 failed')")
    page.click("a:has-text('lines')")
    page.wait_for_selector("h1 .badge.good:has-text('running')")
    page.click("button:has-text('Pause…')")
    confirm(page)
    page.wait_for_selector("h1 .badge:has-text('paused')")
    page.click("button:has-text('Resume…')")
    confirm(page)
    page.wait_for_selector("h1 .badge.good:has-text('running')")
    page.wait_for_selector("text=/orders.txt >> nth=0")


def test_a_failed_task_shows_its_error_and_is_restarted(open_page: OpenPage) -> None:
    page = open_page("/connectors/broken")
    page.wait_for_selector(".tasks pre.error")
    assert "the disk is full" in page.inner_text(".tasks pre.error")
    page.click(".tasks button:has-text('Restart…')")
    confirm(page)
    page.wait_for_selector(".tasks pre.error")


def test_a_schema_is_checked_before_it_is_registered(open_page: OpenPage) -> None:
    page = open_page("/schemas")
    page.click("text=Register a schema")
    page.fill("#field-subject", "orders-value")
    page.fill("#field-schema", FIRST)
    page.wait_for_selector("dialog .badge.good:has-text('compatible')")
    page.click("dialog footer button.primary:enabled")
    page.wait_for_selector("h1:has-text('orders-value')")
    page.click("text=New version…")
    page.fill("#field-schema", RENAMED)
    page.wait_for_selector("dialog .badge.bad:has-text('not compatible')")
    assert page.is_disabled("dialog footer button.primary")
    assert "number" in page.inner_text("dialog .diff .added")
    page.fill("#field-schema", SECOND)
    page.wait_for_selector("dialog .badge.good:has-text('compatible')")
    page.click("dialog footer button.primary:enabled")
    page.wait_for_selector("main .diff .added:has-text('note')")
    page.click("button:has-text('Version 1')")
    page.wait_for_selector("main .diff", state="detached")


def test_a_new_version_keeps_the_references(open_page: OpenPage, console: ConsoleProcess) -> None:
    browser = console.browser()
    browser.change("POST", "/api/schemas/refers-to", {"schema": FIRST.replace("Order", "Inner")})
    outer = '{"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": "Inner"}]}'
    references = [{"name": "Inner", "subject": "refers-to", "version": 1}]
    browser.change("POST", "/api/schemas/refers", {"schema": outer, "references": references})
    page = open_page("/schemas/refers")
    page.wait_for_selector(".references a:has-text('refers-to')")
    page.click("text=New version…")
    page.fill("#field-schema", outer.replace("}]}", '}, {"name": "note", "type": "string", "default": ""}]}'))
    page.wait_for_selector("dialog .badge.good:has-text('compatible')")
    page.click("dialog footer button.primary:enabled")
    page.wait_for_selector("main .diff .added:has-text('note')")
    assert browser.get("/api/schemas/refers")["latest"]["references"] == references


def test_the_audit_is_searched(open_page: OpenPage) -> None:
    page = open_page("/audit")
    # Nodes write the audit in the background.
    for _ in range(100):
        page.fill("input[name=principal]", "User:ANONYMOUS")
        page.fill("input[name=operation]", "create")
        page.click("form.query button.primary")
        page.wait_for_function("() => !document.querySelector('.query-status').textContent.includes('Reading')")
        if page.inner_text(".query-status") != "0 entries":
            break
    page.wait_for_selector("tbody tr:has-text('CreateTopics')")
    page.check("input[name=denied]")
    page.click("form.query button.primary")
    page.wait_for_selector("text=Nothing matches")


def test_a_mirroring_flow_is_alive(open_page: OpenPage) -> None:
    page = open_page("/mirrors")
    page.wait_for_selector(".card .badge.good:has-text('alive')")
    page.wait_for_selector(".card a:has-text('a.orders')")


def test_access_rules_are_readable_on_a_telephone(open_page: OpenPage, console: ConsoleProcess) -> None:
    rule = {
        "principal": "User:warehouse-synchronisation",
        "permission": "DENY",
        "operation": "ALTER_CONFIGS",
        "resource_type": "TOPIC",
        "resource_name": "stock.levels.",
        "pattern_type": "PREFIXED",
        "host": "*",
    }
    console.browser().change("POST", "/api/acls", rule)
    page = open_page("/access", width=360, height=740)
    row = page.wait_for_selector("tr:has-text('warehouse-synchronisation')")
    words = ["User:warehouse-synchronisation", "may", "not", "alter", "configs", "topic", "stock.levels.*"]
    assert row.inner_text().split() == words
    console.browser().change("DELETE", "/api/acls", rule)


def test_a_role_is_given_and_taken_away(open_page: OpenPage, cluster: ottla.testing.Cluster) -> None:
    words = ["roles", "create", "reader", "--operation", "Read", "--topic", "orders", "-b", cluster.bootstrap]
    assert aside(run_command, words) == 0
    # The console looks for features of the cluster from time to time.
    for _ in range(60):
        page = open_page("/access?tab=roles")
        if page.query_selector(".tabs a[href*=roles]") is not None:
            break
        page.wait_for_timeout(1000)
    page.click("tr:has-text('reader') button[aria-label='Bind to a principal']")
    page.fill("#field-principal", "User:erin")
    confirm(page)
    page.wait_for_selector("tr:has-text('reader') .badge:has-text('User:erin')")
    page.click("tr:has-text('reader') button[aria-label='Take from a principal']")
    confirm(page)
    page.wait_for_selector("tr:has-text('reader') .badge:has-text('User:erin')", state="detached")


def test_an_open_transaction_is_ended(open_page: OpenPage, cluster: ottla.testing.Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "pay"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("payments", value=b"x")
    producer.flush(60)
    page = open_page("/transactions")
    page.click("tr:has-text('pay') button:has-text('End…')")
    confirm(page)
    page.wait_for_selector("tr:has-text('pay') button", state="detached")


def test_a_hanging_transaction_is_aborted(open_page: OpenPage, cluster: ottla.testing.Cluster) -> None:
    aside(asyncio.run, leave_open(cluster))
    page = open_page("/transactions")
    page.wait_for_selector(".card .badge.bad:has-text('1')")
    page.click("tr:has-text('payments-0') button:has-text('Abort…')")
    confirm(page)
    page.wait_for_selector(".notice.good:has-text('No transaction is')")


async def leave_open(cluster: ottla.testing.Cluster) -> None:
    """Writes a record of a transaction that no coordinator knows, an hour ago."""
    async with OttlaAdmin(ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap))) as admin:
        info = await admin.connections.topic("payments")
        hour_ago = int(time.time() * 1000) - 3_600_000
        record = Record(value=b"lost", timestamp=hour_ago)
        batch = build_batch([record], producer_id=4_000_000, producer_epoch=0, base_sequence=0, is_transactional=True)
        data = PartitionProduceData(index=0, records=memoryview(batch))
        topic = TopicProduceData(name="payments", topic_id=info.topic_id, partition_data=[data])
        request = ProduceRequest(transactional_id="nobody", acks=-1, timeout_ms=5_000, topic_data=[topic])
        response: Any = await admin.connections.ask_node(info.partitions[0].leader, request, version_max=11)
        assert response.responses[0].partition_responses[0].error_code == 0


def test_the_doctor_fixes_what_it_finds(open_page: OpenPage, console: ConsoleProcess) -> None:
    browser = console.browser()
    risky = {"set": {"unclean.leader.election.enable": "true"}}
    browser.change("PUT", "/api/brokers/default/settings", risky)
    page = open_page("/doctor")
    card = ".diagnosis:has-text('unclean')"
    page.click(f"{card} button:has-text('Fix…')")
    confirm(page)
    page.wait_for_selector(card, state="detached")
    assert "Traceback" not in page.inner_text("main")
