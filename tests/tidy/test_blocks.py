"""Every code block of the documentation is run by `tests/docs`, or a comment above it says why not."""

from __future__ import annotations

from tests.docs.pages import pages, parse
from tests.tidy.files import relative


def test_every_block_is_run_or_has_a_reason() -> None:
    unexplained = [
        f"{relative(path)}:{block.line}: ```{block.language}"
        for path in pages()
        for block in parse(path).blocks
        if not block.is_accounted_for
    ]
    assert unexplained == []


def test_no_code_hides_in_indentation() -> None:
    """A block by indentation has no language and no place for a comment: it must be fenced."""
    indented = [f"{relative(path)}:{line}" for path in pages() for line in parse(path).indented]
    assert indented == []


def test_console_blocks_begin_with_a_command() -> None:
    for path in pages():
        for block in parse(path).blocks:
            if block.language == "console":
                assert block.commands(), f"{relative(path)}:{block.line}"
