"""Every call of the API is in `docs/console-api.md`."""

from __future__ import annotations

import re

from ottla.console.server import ROUTES
from tests.tidy.files import ROOT


def test_every_call_is_documented() -> None:
    text = (ROOT / "docs" / "console-api.md").read_text()

    def is_told(path: str) -> bool:
        # The names of parts of a path differ.
        pattern = re.sub(r"\\\{\w+\\\}", r"\\{\\w+\\}", re.escape(path))
        return re.search(f"{pattern}(?![\\w/-])", text) is not None

    verbs = {"pause", "resume", "stop", "restart"}
    missing = [
        route.path
        for route in ROUTES
        if not is_told(route.path) and route.path.rpartition("/")[2] not in verbs | {"done"}
    ]
    assert missing == []
