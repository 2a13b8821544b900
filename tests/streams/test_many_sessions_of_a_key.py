"""A batch with many sessions of one key looks at few sessions for every record."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.columns.schema import HEADER_TYPE
from ottla.streams import Consumed, Serdes, SessionWindows, StreamsBuilder
from ottla.streams.columnar import ColumnTask, Input, column_task
from ottla.streams.columnar.sessions import _Sessions
from ottla.streams.machine.settings import TaskSettings
from ottla.streams.machine.task import InputRecord, StreamTask

TEXT = Serdes.string()
GAP = 1_000
RECORDS = 2_000


def new_task() -> tuple[StreamTask, ColumnTask]:
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_and_grace(GAP, 86_400_000)
    builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key().windowed_by(windows).count()
    topology = builder.build()
    task = StreamTask(topology, topology.nodes, TaskSettings())
    form = column_task(topology, tuple(topology.nodes), task)
    assert form is not None
    return task, form


def process(form: ColumnTask, times: list[int]) -> None:
    columns: dict[str, Any] = {
        "key": pa.array([b"k"] * len(times)),
        "value": pa.array([b"v"] * len(times)),
        "timestamp": pa.array([time * 1000 for time in times]).cast(pa.timestamp("us", tz="UTC")),
        "offset": pa.array(range(len(times))),
        "headers": pa.array([[]] * len(times), HEADER_TYPE),
    }
    form.process([Input("in", 0, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))])


def test_a_record_does_not_look_at_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    task, form = new_task()
    store: Any = next(iter(task.stores.values()))
    calls = 0

    class Place(tuple[int, int]):
        """A place of a session that counts comparisons of its numbers."""

        def __getitem__(self, index: Any) -> Any:
            nonlocal calls
            calls += 1
            return super().__getitem__(index)

    stored = {Place((end, end)): b"\0\0\0\0\0\0\0\1" for end in range(0, RECORDS * 2 * GAP, 2 * GAP)}
    monkeypatch.setattr(store, "raw_sessions", lambda *_: stored)
    # Each record begins a session behind all others.
    process(form, [(RECORDS + number) * 2 * GAP for number in range(RECORDS)])
    assert calls < 10 * RECORDS


def test_a_session_without_an_aggregate_is_removed() -> None:
    """A serde may read None from bytes."""
    sessions = _Sessions({(5, 5): None, (50, 50): "a"})
    sessions.remove((5, 5))
    assert sessions.between(0, 100) == [(50, 50)]


def test_both_forms_have_the_same_sessions() -> None:
    for seed in range(20):
        random = Random(seed)
        times = [random.randrange(60) * GAP // 2 for _ in range(100)]
        by_record, _ = new_task()
        by_record.enqueue("in", 0, [InputRecord(b"k", b"v", time, offset) for offset, time in enumerate(times)])
        by_record.run()
        by_batch, form = new_task()
        process(form, times[:60])
        process(form, times[60:])
        sessions: list[Any] = [
            list(next(iter(task.stores.values())).fetch("k"))  # type: ignore[attr-defined]
            for task in (by_record, by_batch)
        ]
        assert sessions[0] == sessions[1]
