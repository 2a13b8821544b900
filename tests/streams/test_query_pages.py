"""Interactive queries return all rows, not only those of the first answer of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.streams import Consumed, Grouped, Materialized, Serdes, SessionWindows, StreamsBuilder, TimeWindows
from ottla.streams.runtime import query_door
from tests.streams.live import Live, eventually
from tests.streams.test_application_state import name, start

__all__ = ["name"]

TEXT = Serdes.string()


def test_all_rows(live: Live, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_door, "ROWS_MAX", 7)
    builder = StreamsBuilder()
    grouped = builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    grouped.count(Materialized.as_("counts"))
    grouped.windowed_by(TimeWindows.of_size_and_grace(1_000, 1_000_000)).count(Materialized.as_("windows"))
    grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(10, 1_000_000)).count(Materialized.as_("sessions"))
    live.create(f"{name}-in", partitions=1)
    for number in range(4):
        live.write(f"{name}-in", [(f"k{key:02}", "x") for key in range(20)], timestamp_ms=1_000 * number)
    for number in range(20):
        live.write(f"{name}-in", [("one", "x")], timestamp_ms=10_000 + number * 1_000)
    application = start(live, builder.build(), name, tmp_path)
    eventually(lambda: live.lag(name) == 0)
    assert len(list(application.store("counts").all())) == 21
    assert len(list(application.store("counts").prefix_scan(b"k"))) == 20
    assert len(list(application.store("windows").fetch_range("one", 0, 1_000_000))) == 20
    rows = [
        (windowed.key, windowed.window.start) for windowed, _ in application.store("windows").fetch_all(0, 1_000_000)
    ]
    assert len(rows) == len(set(rows)) == 100
    assert len(list(application.store("sessions").fetch("one"))) == 20
    assert application.close()
