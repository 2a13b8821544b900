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
    """A console that was told one node alone."""
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
    # Nobody loads a page again: they follow.
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
