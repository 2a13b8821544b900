"""One Chromium of the operating system for all tests; a page that reports an error fails its test.

With `CONSOLE_PICTURES=DIRECTORY` a picture of the final state of every page is saved there.
"""

from __future__ import annotations

import os
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
def open_page(chromium: Any, console: ConsoleProcess, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Opens a path of the console; a script error, or one that the browser logs, fails the test at its end."""
    contexts: list[Any] = []
    errors: list[str] = []

    def open_path(
        path: str, *, width: int = 1280, height: int = 820, scheme: str = "light", shows: str = "main h1"
    ) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(f"{path}: {error}"))
        page.on("console", lambda line: errors.append(f"{path}: {line.text}") if is_fault(line) else None)
        page.goto(console.url + path, wait_until="commit")
        page.wait_for_selector(shows)
        return page

    yield open_path
    for number, context in enumerate(contexts):
        if pictures := os.environ.get("CONSOLE_PICTURES"):
            context.pages[0].screenshot(path=f"{pictures}/{request.node.name}-{number}.png")
        context.close()
    assert errors == []


def is_fault(line: Any) -> bool:
    """A request that the server refused is not a fault of the page if the page shows the refusal."""
    return line.type == "error" and not line.text.startswith("Failed to load resource")
