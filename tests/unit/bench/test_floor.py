"""The server that only receives, checks, writes and answers."""

from __future__ import annotations

import pytest

from bench import floor


def test_a_round_measures_something_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "BYTES_PER_ROUND", 100_000)
    seconds_per_gb = floor.measure(1_000, 2)
    assert seconds_per_gb > 0
