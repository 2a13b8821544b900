"""The node's own log: what a line looks like in each of its formats."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.host.logs import set_up_logging

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"


@pytest.fixture(autouse=True)
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(path: Path, line_format: str) -> list[str]:
    set_up_logging(file=str(path), line_format=line_format)
    logger = logging.getLogger("ottla.test")
    logger.info("two words")
    logger.debug("not said")
    try:
        raise ValueError('a "quoted"\nreason')
    except ValueError:
        logger.exception("it\nfailed")
    return path.read_text().splitlines()


def test_text(tmp_path: Path) -> None:
    first, second, *rest = lines(tmp_path / "log", "text")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO ottla\.test two words", first)
    assert second.endswith(" ERROR ottla.test it\\nfailed")
    assert all(line.startswith("    ") for line in rest)


def test_logfmt(tmp_path: Path) -> None:
    first, second = lines(tmp_path / "log", "logfmt")
    assert re.fullmatch(rf'time={STAMP} level=INFO logger=ottla\.test message="two words"', first)
    assert 'message="it\\nfailed" traceback="Traceback' in second
    assert 'ValueError: a \\"quoted\\"\\nreason"' in second


def test_json(tmp_path: Path) -> None:
    first, second = map(json.loads, lines(tmp_path / "log", "json"))
    assert re.fullmatch(STAMP, first.pop("time"))
    assert first == {"level": "INFO", "logger": "ottla.test", "message": "two words"}
    assert second["message"] == "it\nfailed"
    assert second["traceback"].endswith('ValueError: a "quoted"\nreason')
