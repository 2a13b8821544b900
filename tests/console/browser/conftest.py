"""One Chromium of the operating system for all tests; a page that reports an error fails its test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.consoles import ConsoleProcess

# A busy machine may take long to start a process of the browser. Every wait ends as soon as its condition holds.
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("There is no Chromium: install the package `chromium` of the operating system")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: `make setup` installs it")
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = driver.chromium.launch(executable_path=executable, args=options, timeout=2 * WAIT_MS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, console: ConsoleProcess) -> Iterator[Callable[..., Any]]:
    """Opens a path of the console; a script error or a violation of the policy fails the test at its end."""
    contexts: list[Any] = []
    errors: list[str] = []

    def open_path(path: str, *, width: int = 1280, height: int = 820, scheme: str = "light") -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(f"{path}: {error}"))
        page.on("console", lambda line: errors.append(f"{path}: {line.text}") if is_violation(line) else None)
        page.goto(console.url + path, wait_until="commit")
        page.wait_for_selector("main h1")
        return page

    yield open_path
    for context in contexts:
        context.close()
    assert errors == []


def is_violation(line: Any) -> bool:
    return line.type == "error" and ("Content Security Policy" in line.text or "TrustedHTML" in line.text)
