"""Walks through pages of the console as a person does: opens them, presses every button, closes what opens."""

from __future__ import annotations

from typing import Any

__all__ = ["PAGES", "go", "press_every_button", "settle"]

# Every page, with the topic `shop.orders` and the group `billing`, and a part of its heading.
PAGES = {
    "/": "Overview",
    "/brokers": "Brokers",
    "/brokers/1": "Broker 1",
    "/brokers/1?tab=settings": "Broker 1",
    "/balance": "Balance",
    "/doctor": "Doctor",
    "/topics": "Topics",
    "/topics/shop.orders": "shop.orders",
    "/topics/shop.orders?tab=messages": "shop.orders",
    "/topics/shop.orders?tab=groups": "shop.orders",
    "/topics/shop.orders?tab=settings": "shop.orders",
    "/groups": "Groups",
    "/groups/billing": "billing",
    "/groups/billing?tab=members": "billing",
    "/transactions": "Transactions",
    "/access": "Access",
    "/access?tab=users": "Access",
    "/access?tab=quotas": "Access",
    "/schemas": "Schemas",
    "/connectors": "Connectors",
    "/mirrors": "Mirroring",
    "/audit": "Audit",
}

CALM_POLL_MS = 50

_NEXT_BUTTON = """seen => {
    const name = button => (button.getAttribute("aria-label") || button.textContent).trim();
    const next = [...document.querySelectorAll("main button:not(:disabled)")].find(one => !seen.includes(name(one)));
    if (!next) return null;
    next.click();
    return name(next);
}"""
_IS_CALM = """() => {
    const page = document.querySelector("main");
    if (!page || page.querySelector(".skeleton, .waiting") || !page.querySelector("h1")) return false;
    const retry = page.querySelector(".notice[role=alert] button");
    if (retry) retry.click();
    return !page.querySelector(".notice[role=alert]");
}"""
_IS_DECIDED = "() => !document.querySelector('dialog[open] .plan')?.textContent.includes('Asking the cluster')"
_NEXT_FRAME = "() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"


def go(page: Any, path: str, title: str) -> None:
    """Opens another page as a link does, without loading the scripts again."""
    page.evaluate("path => { history.pushState(null, '', path); dispatchEvent(new Event('ottla-moved')); }", path)
    page.wait_for_function("title => document.querySelector('main h1')?.textContent.includes(title)", arg=title)
    settle(page)


def settle(page: Any) -> None:
    """Waits until the page shows its content. If it shows a failure, "Try again" is pressed."""
    from playwright.sync_api import TimeoutError

    try:
        page.wait_for_function(_IS_CALM, polling=CALM_POLL_MS)
    except TimeoutError as error:
        raise AssertionError(f"{page.url} does not become calm: {page.inner_html('main')[:3000]}") from error
    text = page.inner_text("body")
    for trace in ("Traceback", "[object Object]", "undefined"):
        assert trace not in text, text


def press_every_button(page: Any) -> list[str]:
    """Presses each button once, and closes the dialogs that ask before a change. Returns their names."""
    seen: list[str] = []
    while True:
        page.evaluate(_NEXT_FRAME)
        name = page.evaluate(_NEXT_BUTTON, seen)
        if name is None:
            return seen
        seen.append(name)
        page.evaluate(_NEXT_FRAME)
        if page.query_selector("dialog[open]") is not None:
            page.wait_for_function(_IS_DECIDED)
            assert "Traceback" not in page.inner_text("dialog[open]")
            page.keyboard.press("Escape")
            page.wait_for_selector("dialog[open]", state="detached")
