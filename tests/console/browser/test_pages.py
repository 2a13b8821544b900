"""The pages in a real browser: each opens, changes ask first, the keyboard is enough, text of records stays text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import ottla.testing
from tests.console.browser.walk import PAGES, go
from tests.support.consoles import ConsoleProcess

SCRIPT = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
OpenPage = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def shop(cluster: ottla.testing.Cluster) -> None:
    """A topic with records, some of which look like markup, and a group that has read a part of it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(40):
        value = json.dumps({"id": number, "amount": number * 10})
        producer.produce("shop.orders", key=f"order-{number}", value=value, headers={"source": "web"})
    producer.produce("shop.tail", value="before")
    producer.produce("shop.markup", key=SCRIPT, value=SCRIPT, headers={"markup": SCRIPT})
    assert producer.flush(60) == 0
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["shop.orders"])
    assert len(consumer.consume(10, timeout=60)) > 0
    consumer.commit(asynchronous=False)
    consumer.close()


def test_every_page_opens(open_page: OpenPage) -> None:
    page = open_page("/")
    for path, title in PAGES.items():
        go(page, path, title)


def test_pages_say_what_the_cluster_does_not_have(open_page: OpenPage) -> None:
    page = open_page("/")
    for path, title, sentence in (
        ("/audit", "Audit", "There is no audit"),
        ("/access", "Access", "Everybody may do everything here"),
        ("/schemas", "Schemas", "This console knows no schema registry"),
        ("/connectors", "Connectors", "This console knows no Connect workers"),
        ("/mirrors", "Mirroring", "Nothing is mirrored to this cluster"),
    ):
        go(page, path, title)
        page.wait_for_selector(f"main >> text={sentence}")


def test_an_address_with_a_dot_opens_when_it_is_loaded(open_page: OpenPage) -> None:
    page = open_page("/topics/shop.orders?tab=messages")
    page.wait_for_selector("o-messages tr.opens")
    assert "order-" in page.inner_text("o-messages tbody")


def test_a_topic_is_created_after_its_plan_was_shown(open_page: OpenPage) -> None:
    page = open_page("/topics")
    page.click("text=Create a topic")
    page.wait_for_function("() => document.activeElement.id === 'field-name'")
    page.keyboard.type("from-the-browser")
    page.fill("#field-partitions", "2")
    page.wait_for_selector(".plan li")
    assert "from-the-browser" in page.inner_text(".plan li")
    assert page.inner_text(".plan .copyable code").startswith("ottla topics")
    page.click("dialog footer button.primary")
    page.wait_for_function("() => document.querySelector('main h1')?.textContent.includes('from-the-browser')")


def test_deletion_wants_the_name_to_be_typed(open_page: OpenPage) -> None:
    page = open_page("/topics/shop.markup")
    page.click("main button.danger")
    page.wait_for_selector(".plan li")
    assert page.is_disabled("dialog footer button.danger")
    page.fill("#change-typed", "shop.markup")
    page.wait_for_selector("dialog footer button.danger:enabled")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")


def test_the_keyboard_finds_a_topic_and_walks_through_its_records(open_page: OpenPage) -> None:
    page = open_page("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("shop.ord")
    page.wait_for_selector("#palette-list li:has-text('shop.orders')")
    page.wait_for_function("() => document.querySelectorAll('#palette-list li').length === 1")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.pathname === '/topics/shop.orders'")
    page = open_page("/topics")
    page.wait_for_selector("tr.opens >> nth=1")
    page.focus("tr.opens")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("() => document.activeElement.dataset.index === '1'")
    name = page.inner_text("tr[data-index='1'] td:first-child").split()[0]
    page.keyboard.press("Enter")
    page.wait_for_function("name => decodeURIComponent(location.pathname) === '/topics/' + name", arg=name)


def test_markup_in_a_record_is_shown_as_text(open_page: OpenPage) -> None:
    page = open_page("/topics/shop.markup?tab=messages")
    page.click("o-messages tr.opens")
    page.wait_for_selector("o-message pre.content")
    assert page.inner_text("o-message pre.content >> nth=0") == SCRIPT
    assert page.inner_text("o-message pre.content >> nth=1") == SCRIPT
    assert SCRIPT in page.inner_text("o-message .dialog-body")
    assert page.query_selector("o-message img, o-message script, o-messages img, o-messages script") is None
    assert "run" not in page.title()


def test_a_search_tells_what_it_found(open_page: OpenPage) -> None:
    page = open_page("/topics/shop.orders?tab=messages")
    page.fill("input[name=filter]", "order-7")
    page.click("text=Search all")
    page.wait_for_function("() => document.querySelector('.query-status').textContent.includes('1 found in 40')")
    assert page.locator("o-messages tr.opens").count() == 1


def write_until_seen(page: Any, producer: Producer, topic: str, word: str) -> None:
    """A tail begins at the end of the topic, some time after the click. Records are written until one is seen."""
    for number in range(600):
        producer.produce(topic, value=f"{word}-{number}")
        assert producer.flush(60) == 0
        page.wait_for_timeout(100)
        if f"{word}-" in page.inner_text("o-messages tbody"):
            return
    raise AssertionError(page.inner_text("main"))


def test_a_tail_shows_records_as_they_are_written(open_page: OpenPage, cluster: ottla.testing.Cluster) -> None:
    page = open_page("/topics/shop.tail?tab=messages")
    with page.expect_response(lambda answer: "/tail" in answer.url):
        page.click("o-messages button:has-text('Live')")
    write_until_seen(page, Producer({"bootstrap.servers": cluster.bootstrap}), "shop.tail", "live")
    page.click("o-messages button:has-text('Stop')")
    page.wait_for_selector("o-messages button:has-text('Live')")


def test_a_tail_that_fails_says_why_and_goes_on(
    open_page: OpenPage, console: ConsoleProcess, cluster: ottla.testing.Cluster
) -> None:
    browser, producer = console.browser(), Producer({"bootstrap.servers": cluster.bootstrap})
    browser.change("POST", "/api/topics", {"name": "shop.gone", "partitions": 1, "replication_factor": 1})
    page = open_page("/topics/shop.gone?tab=messages")
    page.click("o-messages button:has-text('Live')")
    write_until_seen(page, producer, "shop.gone", "first")
    browser.change("DELETE", "/api/topics/shop.gone", {})
    page.wait_for_selector("o-messages .notice[role=alert]:has-text('does not exist any more')")
    assert page.is_visible("o-messages button:has-text('Live')")
    browser.change("POST", "/api/topics", {"name": "shop.gone", "partitions": 1, "replication_factor": 1})
    page.click("o-messages .notice[role=alert] button:has-text('Go on live')")
    page.wait_for_selector("o-messages .notice[role=alert]", state="detached")
    write_until_seen(page, producer, "shop.gone", "second")
    # The records from before stay, and the gap is told.
    assert "first-" in page.inner_text("o-messages tbody")
    page.wait_for_selector(".query-status:has-text('1 interruption')")


def test_live_figures_arrive(open_page: OpenPage) -> None:
    page = open_page("/")
    page.wait_for_selector(".pulse.good, .pulse.warn")
    page.wait_for_selector("o-chart .u-wrap")


def test_an_offset_reset_shows_offsets_before_it_happens(open_page: OpenPage) -> None:
    page = open_page("/groups/billing")
    page.click("main button:has-text('Reset offsets')")
    page.wait_for_selector(".preview tbody tr")
    assert "shop.orders-0" in page.inner_text(".preview")
    assert "ottla groups" in page.inner_text(".plan .copyable code")


@pytest.mark.parametrize("path", ["/", "/topics", "/topics/shop.orders?tab=messages", "/groups/billing", "/access"])
def test_a_narrow_window_needs_no_sideways_scrolling(open_page: OpenPage, path: str) -> None:
    page = open_page(path, width=400, height=800, scheme="dark")
    page.wait_for_function("() => !document.querySelector('main .skeleton, main .waiting')")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("() => document.querySelector('main').scrollWidth <= innerWidth")


def test_the_theme_follows_the_system_and_the_button(open_page: OpenPage) -> None:
    page = open_page("/topics", scheme="dark")
    paper = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.click("button[aria-label=Light]")
    page.wait_for_function("dark => getComputedStyle(document.body).backgroundColor !== dark", arg=dark)
    page.reload()
    page.wait_for_selector("main h1")
    assert page.evaluate(paper) != dark
