"""Every code block of README.md, docs/*.md and docs/learn/*.md does what its page says. See README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, pages, parse
from tests.docs.runner import SKIPPED, run_page

PAGES = {path.relative_to(ROOT).as_posix(): parse(path) for path in pages()}
# `make test` runs one of the pages that start Spark, `make docs-test` all of them.
SELECTED = "docs/spark.md"
SLOW = [
    pytest.param(name, marks=() if name == SELECTED else pytest.mark.faults)
    for name, page in PAGES.items()
    if page.is_slow
]


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.has_quick_blocks])
def test_the_blocks_of_a_page(name: str, tmp_path: Path) -> None:
    run(name, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_all_blocks_of_a_page(name: str, tmp_path: Path) -> None:
    """With the blocks that start Spark."""
    run(name, tmp_path, slow=True)


def run(name: str, tmp_path: Path, *, slow: bool) -> None:
    transcript = tmp_path / "transcript"
    with transcript.open("wb") as output:
        status = run_page(ROOT / name, slow=slow, output=output)
    transcript_text = transcript.read_text(errors="replace")
    if status == SKIPPED:
        pytest.skip(transcript_text.strip())
    assert status == 0, transcript_text
