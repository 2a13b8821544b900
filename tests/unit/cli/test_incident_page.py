"""The page about incidents names alerts and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

from ottla.cli.table import COMMANDS

ROOT = Path(__file__).resolve().parents[3]


def test_alerts_and_commands_of_the_page_exist() -> None:
    page = (ROOT / "docs/incidents.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith(("| a ", "| somebody"))]
    rules = (ROOT / "docs/monitoring/prometheus-alerts.yml").read_text()
    known = set(re.findall(r"- alert: (\w+)", rules))
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[2])]
    assert len(rows) > 8
    assert set(named) <= known
    for row in rows:
        for command in re.findall(r"ottla ([a-z][\w-]*)", "".join(row[4:])):
            assert command in COMMANDS
