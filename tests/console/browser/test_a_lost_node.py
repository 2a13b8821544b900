"""The pages of a cluster of three nodes under load, while a node is killed and comes back."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from tests.console.browser.walk import PAGES, go, press_every_button, settle
from tests.support.consoles import ConsoleProcess, console_process

OpenPage = Callable[..., Any]

# A lost node is noticed soon, so that the test is short.
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for name in ("shop.orders", "shop.clicks"):
            admin.create_topics([NewTopic(name, 6, 3)])[name].result(60)
        with under_load(running.bootstrap):
            yield running


@pytest.fixture(scope="module")
def console(cluster: ottla.testing.Cluster) -> Iterator[ConsoleProcess]:
    """A console with a single node as bootstrap server."""
    with console_process(cluster.node(1).address, "--timeout", "5000") as running:
        yield running


@contextlib.contextmanager
def under_load(bootstrap: str) -> Iterator[None]:
    """A producer, and a group that reads behind it."""
    is_over = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        number = 0
        while not is_over.wait(0.02):
            for topic in ("shop.orders", "shop.clicks"):
                producer.produce(topic, key=f"key-{number % 50}", value=f'{{"id": {number}}}')
            producer.poll(0)
            number += 1
        producer.flush(10)

    def read() -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe(["shop.orders"])
        while not is_over.is_set():
            consumer.consume(50, timeout=0.2)
        consumer.close()

    threads = [threading.Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_pages_go_on_without_the_node_that_the_console_was_told(
    open_page: OpenPage, cluster: ottla.testing.Cluster
) -> None:
    overview, page = open_page("/"), open_page("/topics/shop.orders?tab=messages")
    overview.wait_for_selector(".pulse.good")
    page.click("o-messages button:has-text('Live')")
    page.wait_for_selector("o-messages tr.opens")
    cluster.node(1).kill()
    overview.wait_for_selector(".pulse.warn, .pulse.bad")
    overview.wait_for_selector("text=Broker 1 is not running")
    # The tail goes on with the new leaders.
    newest = newest_time(page)
    page.wait_for_function(f"newest => ({NEWEST_TIME})() > newest", arg=newest)
    for path, title in PAGES.items():
        go(page, path, title)
    go(page, "/brokers", "Brokers")
    page.wait_for_selector("tr:has-text('down')")
    cluster.node(1).start()
    # No page is reloaded: the pages update by themselves.
    overview.wait_for_selector(".pulse.good")
    page.wait_for_function("() => !document.querySelector('main tbody').innerText.includes('down')")
    settle(overview)


NEWEST_TIME = "() => document.querySelector('o-messages tr.opens td:nth-child(3)')?.textContent.trim() ?? ''"


def newest_time(page: Any) -> str:
    return str(page.evaluate(NEWEST_TIME))


@pytest.mark.faults
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_every_button_of_every_page_while_a_node_is_down(
    open_page: OpenPage, cluster: ottla.testing.Cluster, lost: int
) -> None:
    page = open_page("/")
    page.wait_for_selector(".pulse.good")
    cluster.node(lost).kill()
    pressed: set[str] = set()
    for path, title in {**PAGES, f"/brokers/{lost}": f"Broker {lost}"}.items():
        go(page, path, title)
        pressed.update(press_every_button(page))
        settle(page)
    assert {"Create a topic", "Delete…", "Balance…", "Search all", "Examine again"} <= pressed
    cluster.node(lost).start()
    go(page, "/", "Overview")
    page.wait_for_selector(".pulse.good")


@pytest.mark.faults
def test_a_shortage_of_brokers_is_told_until_the_node_is_back(
    open_page: OpenPage, cluster: ottla.testing.Cluster, console: ConsoleProcess
) -> None:
    """Every partition has three replicas, so two brokers cannot take those of the third."""
    browser = console.browser()
    overview, doctor, balance = open_page("/"), open_page("/doctor"), open_page("/balance")
    overview.wait_for_selector(".pulse.good")
    assert balance.query_selector("main .notice.warn") is None
    cluster.node(3).kill()
    overview.wait_for_selector(".notice:has-text('Broker 3 is not running')")
    overview.wait_for_selector(".notice:has-text('partitions have fewer in-sync replicas than replicas')")
    balance.wait_for_selector("main .notice.warn:has-text('Broker 3 is not running')")
    balance.wait_for_selector("li:has-text('Broker 3') .badge.bad")
    balance.click("button:has-text('Balance…')")
    balance.wait_for_selector("dialog[open] [role=alert]:has-text('broker 3 is gone')")
    message = balance.inner_text("dialog[open] [role=alert]")
    assert "cannot have 3 replicas" in message
    assert "only brokers 1 and 2 can take replicas" in message
    assert "Start broker 3 again" in message
    balance.keyboard.press("Escape")
    assert browser.failure("POST", "/api/balance", {"dry_run": True}) == (409, "NOT_AVAILABLE")
    doctor.click("button:has-text('Examine again')")
    doctor.wait_for_selector(".diagnosis:has-text('Broker 3') .badge.bad")
    cluster.node(3).start()
    # The overview and the balance page update by themselves.
    overview.wait_for_selector(".pulse.good")
    balance.wait_for_selector("main .notice.warn", state="detached")
    balance.wait_for_selector("li:has-text('Broker 3') .badge.bad", state="detached")
    overview.wait_for_selector(".notice", state="detached")
    doctor.click("button:has-text('Examine again')")
    doctor.wait_for_selector(".diagnosis:has-text('Broker 3'):has(.badge.bad)", state="detached")
    status, answer = browser.ask("POST", "/api/balance", {"dry_run": True})
    assert status == 200 or answer["error"]["code"] == "NOTHING_TO_DO"
