"""The twin that counts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from bench.metrics import FILES, without_counting

SOURCE = """
def work(self, statistics, size):
    started = self._monotonic()
    self.position += size
    try:
        self.handle()
    finally:
        statistics.requests += 1
        statistics.request_sizes[size.bit_length()] += 1
        seconds = self._monotonic() - started
    return seconds
"""


def test_what_counts_is_taken_out_and_the_rest_stays() -> None:
    text, removed = without_counting(SOURCE)
    assert removed == 4
    assert "self.position += size" in text
    assert "self.handle()" in text
    assert "requests" not in text
    assert "request_sizes" not in text
    assert "_monotonic" not in text


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_the_hot_path_counts_something(name: str) -> None:
    text, removed = without_counting((Path(ottla.__file__).parent / name).read_text())
    assert removed > 0
    compile(text, name, "exec")
