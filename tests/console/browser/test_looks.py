"""How pages look: in a narrow window, in the dark, for weak eyes, and with the keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import ottla.testing
from tests.console.browser.walk import PAGES, go

# Text is readable with this contrast (WCAG 2.2, level AA), large text with less.
CONTRAST = 4.5
CONTRAST_LARGE = 3.0
WEAK_TEXTS = """([least, leastLarge]) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const over = (below, text) => {
        pen.fillStyle = `rgb(${below.join(" ")})`;
        pen.fillRect(0, 0, 1, 1);
        pen.fillStyle = text;
        pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const paper = element => {
        const chain = [];
        for (let one = element; one; one = one.parentElement) chain.unshift(getComputedStyle(one).backgroundColor);
        return chain.reduce(over, [255, 255, 255]);
    };
    const light = colour => {
        const [red, green, blue] = colour.map(part => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const weak = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        const text = walker.currentNode.textContent.trim();
        const isLeftOut = element.closest("button:disabled, option, .visually-hidden");
        if (!text || isLeftOut || !element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        const below = paper(element);
        const [a, b] = [light(over(below, style.color)), light(below)];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
        if (contrast < (isLarge ? leastLarge : least)) weak.add(`${text.slice(0, 30)}: ${contrast.toFixed(2)}`);
    }
    return [...weak];
}"""
WIDE_PARTS = """() => [...document.querySelectorAll("main, main *, .topbar *")].filter(one => {
    const box = one.getBoundingClientRect();
    const isScrolled = one.parentElement.closest(".rows, .content, .diff, .tabs, pre, svg, .u-wrap, .visually-hidden");
    return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1) && !isScrolled && one.checkVisibility();
}).map(one => `${one.tagName}.${one.className}`).slice(0, 5)"""
OpenPage = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def shop(cluster: ottla.testing.Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(5):
        producer.produce("shop.orders", key=f"order-{number}", value=f'{{"id": {number}}}')
    assert producer.flush(60) == 0
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["shop.orders"])
    assert consumer.consume(1, timeout=60)
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(open_page: OpenPage, scheme: str) -> None:
    page = open_page("/", scheme=scheme)
    weak = {}
    for path, title in PAGES.items():
        go(page, path, title)
        weak_texts = page.evaluate(WEAK_TEXTS, [CONTRAST, CONTRAST_LARGE])
        if weak_texts:
            weak[path] = weak_texts
    assert weak == {}


def test_no_page_is_wider_than_a_telephone(open_page: OpenPage) -> None:
    page = open_page("/", width=390, height=800, scheme="dark")
    wide = {}
    for path, title in PAGES.items():
        go(page, path, title)
        wide_parts = page.evaluate(WIDE_PARTS)
        if wide_parts or page.evaluate("() => document.querySelector('main').scrollWidth > innerWidth"):
            wide[path] = wide_parts
    assert wide == {}


def test_the_menu_of_a_narrow_window(open_page: OpenPage) -> None:
    page = open_page("/topics", width=390, height=800)
    assert not page.is_visible(".sidebar")
    page.click("button[aria-label=Menu]")
    page.click(".sidebar a:has-text('Groups')")
    page.wait_for_selector("main h1:has-text('Groups')")
    page.wait_for_selector(".sidebar", state="hidden")


def test_the_palette_leads_to_every_page(open_page: OpenPage) -> None:
    page = open_page("/")
    labels = page.eval_on_selector_all(".sidebar li a", "links => links.map(one => one.textContent.trim())")
    assert len(labels) >= 12
    for label in labels:
        page.keyboard.press("Control+k")
        page.wait_for_selector("dialog.palette[open]")
        page.keyboard.type(label)
        page.wait_for_selector(f"#choice-0:has-text('{label}')")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog.palette[open]", state="detached")
        page.wait_for_function("label => document.querySelector('main h1')?.textContent.includes(label)", arg=label)


def test_a_topic_is_created_with_the_keyboard_alone(open_page: OpenPage) -> None:
    page = open_page("/")
    page.keyboard.press("/")
    page.wait_for_selector("dialog.palette[open]")
    page.keyboard.type("create a")
    page.wait_for_selector("#choice-0:has-text('Create a topic')")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'field-name'")
    page.keyboard.type("by-keyboard")
    page.wait_for_selector(".plan li:has-text('by-keyboard')")
    page.keyboard.press("Enter")
    page.wait_for_selector("main h1:has-text('by-keyboard')")
    # Tab reaches the tabs of the page, and arrows walk through them.
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.getAttribute('role') === 'tab'"):
            break
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.search.includes('tab=messages')")


def test_a_chart_with_a_single_moment_does_not_span_a_day(open_page: OpenPage) -> None:
    page = open_page("/")
    page.wait_for_selector("o-chart .u-wrap")
    for times in ([], [1_700_000_000]):
        seconds = page.evaluate(
            """async times => {
                const chart = document.createElement("o-chart");
                chart.series = [{ label: "lag", colour: "--series-1", values: times.map(() => 1) }];
                chart.times = times;
                document.querySelector("main").append(chart);
                await chart.updateComplete;
                await new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)));
                const { min, max } = chart.plot.scales.x;
                chart.remove();
                return max - min;
            }""",
            times,
        )
        assert 0 < seconds < 60


def test_a_long_name_stays_within_its_card(open_page: OpenPage) -> None:
    page = open_page("/", width=390)
    page.wait_for_selector(".card-head h2")
    assert page.evaluate(
        """() => {
            const title = document.querySelector(".card-head h2");
            title.textContent = "y".repeat(250);
            return title.closest(".card").scrollWidth <= title.closest(".card").clientWidth;
        }"""
    )
