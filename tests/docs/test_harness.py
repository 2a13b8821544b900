"""The runner of pages detects the errors of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.matching import matches
from tests.docs.pages import PageError, parse
from tests.docs.runner import SKIPPED, run_page

FENCE = "```"


def page(path: Path, *blocks: str) -> Path:
    path = path / "page.md"
    path.write_text("\n\n".join(blocks) + "\n")
    return path


def block(language: str, text: str, *comments: str) -> str:
    above = "".join(f"<!-- {comment} -->\n" for comment in comments)
    return f"{above}{FENCE}{language}\n{text}\n{FENCE}"


def status_of(path: Path, tmp_path: Path) -> tuple[int, str]:
    with (tmp_path / "said").open("wb") as output:
        status = run_page(path, slow=False, output=output)
    transcript = (tmp_path / "said").read_text()
    if status == SKIPPED:
        pytest.skip(transcript)
    return status, transcript


RIGHT = [
    block("console", "$ mkdir inner && cd inner && export WORD=hello\n$ echo $WORD from ${PWD##*/}\nhello from inner"),
    block("python", "import os\nword = 'hi'"),
    block("python", "print(word)"),
    block("text", "hi"),
    block("properties", "# some.properties\na=1"),
    block("console", "$ cat ../some.properties\n...\na=1"),
    block("console", "$ exit 3", "not run: it fails on purpose"),
    block("console", "$ exit 3\n$ echo b\nb", "slow (exit): it fails on purpose"),
    block("console", "$ echo seen; sleep 600\nseen\n^C"),
]
WRONG = {
    "a failed command": block("console", "$ false"),
    "another output": block("console", "$ echo one\ntwo"),
    "missing output": block("console", "$ echo one\none\ntwo"),
    "an exception": block("python", "1 / 0"),
    "another output of Python": block("python", "print(1)") + "\n\n" + block("text", "2"),
    "a server that ends": block("console", "$ ottla up --nodes none"),
}


def test_a_right_page_passes(tmp_path: Path) -> None:
    status, transcript = status_of(page(tmp_path, *RIGHT), tmp_path)
    assert status == 0, transcript


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_page_fails(what: str, tmp_path: Path) -> None:
    status, transcript = status_of(page(tmp_path, WRONG[what]), tmp_path)
    assert status == 1, transcript
    assert "line 1" in transcript


def test_comments_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    for comment in ("not run", "not run:", "later: soon", "slow (cat): no such command"):
        with pytest.raises(PageError):
            parse(page(tmp_path, block("console", "$ ls", comment)))


def test_code_by_indentation_is_noticed(tmp_path: Path) -> None:
    parsed = parse(page(tmp_path, "Text\n\n    ottla up\n", "- item\n\n    more of the item", block("text", "    x")))
    assert parsed.indented == [3]


def test_times_and_widths_may_differ() -> None:
    assert matches("at 2026-01-02 03:04:05 in 1.5 s", "at   2026-12-31T23:59:59.123Z  in 12 ms")
    assert matches("a\n...\nz", "a\nb\nc\nz")
    assert matches("id ... end", "id 7f3 end")
    assert not matches("a\nz", "a\nb\nz")
    assert not matches("count 2", "count 3")
