"""The column form of a task: whole batches of its input partitions as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.client.columns.schema import HEADER_TYPE
from ottla.streams.columnar.bytes import decoded, encoded
from ottla.streams.columnar.order import order_of_two, processing_order, runs_of
from ottla.streams.columnar.plan import Form, Sink, Tree, find_form
from ottla.streams.columnar.rows import Numbers, Rows
from ottla.streams.columnar.stateless import Branches
from ottla.streams.machine.task import InputRecord, StreamTask
from ottla.streams.topology.topology import SourceNode, Topology

__all__ = ["ColumnTask", "Input", "NotInColumnsError", "column_task", "records_of"]

_MICROSECONDS = pa.timestamp("us", tz="UTC")
# Inputs with shorter runs on average are processed record by record.
_ROWS_PER_RUN = 16


class NotInColumnsError(Exception):
    """A batch has to be processed record by record; nothing was changed."""


class Input(NamedTuple):
    """Rows of one partition, with the columns of `ottla.client.columns`."""

    topic: str
    partition: int
    batch: pa.RecordBatch


class ColumnTask:
    def __init__(self, task: StreamTask, form: Form, sources: dict[str, SourceNode]) -> None:
        self._task = task
        self._form = form
        # By topic.
        self._sources = sources

    def process(self, inputs: Sequence[Input]) -> list[tuple[str, pa.RecordBatch]]:
        """The rows for the topics of sinks.

        Raises NotInColumnsError if bytes cannot be read, because only the record form names the record, and if the
        inputs take turns too often.
        """
        arrivals = [
            (self._sources[input_.topic].name, input_, rows) for input_ in inputs if len(rows := self._rows(input_))
        ]
        out: list[tuple[str, pa.RecordBatch]] = []
        names = [name for name, _, _ in arrivals]
        columns = [rows for _, _, rows in arrivals]
        if self._form.pair is not None:
            self._run_pair(names, columns, out)
        elif len(arrivals) == 1:
            self._run(self._form.trees[names[0]], columns[0], out)
        elif arrivals:
            runs = runs_of(processing_order([rows.time.values for rows in columns]))
            if sum(map(len, columns)) < _ROWS_PER_RUN * len(runs):
                raise NotInColumnsError
            for run in runs:
                self._run(self._form.trees[names[run.source]], columns[run.source].sliced(run.first, run.end), out)
        for input_ in inputs:
            self._advance(input_)
        return out

    def _advance(self, input_: Input) -> None:
        times = _milliseconds(input_.batch)
        if len(times):
            latest, negative = int(times.max()), int((times < 0).sum())
            if latest >= 0:
                self._task.advance_time(input_.topic, input_.partition, latest)
            if negative:
                self._task.dropped["negative timestamp"] = self._task.dropped.get("negative timestamp", 0) + negative

    def _rows(self, input_: Input) -> Rows:
        source, settings = self._sources[input_.topic], self._task.settings
        try:
            rows = Rows(
                decoded(input_.batch.column("key"), settings.resolve_key(source.key_serde), input_.topic),
                decoded(input_.batch.column("value"), settings.resolve_value(source.value_serde), input_.topic),
                Numbers(numbers=_milliseconds(input_.batch)),
                _headers(input_.batch.column("headers")),
            )
        except Exception as error:
            raise NotInColumnsError from error
        if len(rows) and rows.time.numbers.min() < 0:
            rows = rows.compressed((rows.time.numbers >= 0).tolist())
        return rows

    def _run_pair(self, names: list[str], columns: list[Rows], out: list[tuple[str, pa.RecordBatch]]) -> None:
        form = self._form
        assert form.pair is not None
        assert form.tail is not None
        if len(set(names)) < len(names):
            raise NotInColumnsError
        if len(columns) == 2:
            places = order_of_two(columns[0].time.numbers, columns[1].time.numbers)
            columns = [
                replace(rows, order=np.flatnonzero(places == index).tolist()) for index, rows in enumerate(columns)
            ]
        ready: dict[str, Rows] = {}
        for name, rows in zip(names, columns, strict=True):
            ready[name] = self._before_join(form.trees[name], rows)
        left, right = form.sides
        if ready:
            self._run(form.tail, form.pair.run((ready.get(left), ready.get(right))), out)

    def _before_join(self, tree: Tree, rows: Rows) -> Rows:
        while True:
            if tree.step is not None and len(rows):
                rows = tree.step.run(rows)  # type: ignore[union-attr]
            if not tree.children:
                return rows
            tree = tree.children[0]

    def _run(self, tree: Tree, rows: Rows, out: list[tuple[str, pa.RecordBatch]]) -> None:
        if not len(rows):
            return
        step = tree.step
        if isinstance(step, Sink):
            out.append((step.topic, _batch(step, rows)))
        elif isinstance(step, Branches):
            by_name = {child.name: child for child in tree.children}
            for name, branch_rows in step.split(rows):
                if name in by_name:
                    self._run(by_name[name], branch_rows, out)
        else:
            rows = rows if step is None else step.run(rows)
            for child in tree.children:
                self._run(child, rows, out)


def column_task(topology: Topology, names: tuple[str, ...], task: StreamTask) -> ColumnTask | None:
    """The column form of a task, or None if its sub-topology has none."""
    if any(store.cache is not None for store in task.stores.values()):
        # Column forms forward every update.
        return None
    if task.settings.handlers.sees_records:
        return None
    form = find_form(topology, names, task)
    if form is None:
        return None
    sources = {}
    for name in names:
        node = topology.nodes[name]
        if not isinstance(node, SourceNode):
            continue
        for topic in node.topics:
            full = task.settings.internal_topic(topic) if topic in topology.internal_topics else topic
            sources[full] = node
    return ColumnTask(task, form, sources)


def records_of(batch: pa.RecordBatch) -> list[InputRecord]:
    """The rows of a batch as records."""
    return [
        InputRecord(key, value, time, offset, headers)
        for key, value, time, offset, headers in zip(
            batch.column("key").to_pylist(),
            batch.column("value").to_pylist(),
            _milliseconds(batch).tolist(),
            batch.column("offset").to_pylist(),
            _headers(batch.column("headers")) or [()] * batch.num_rows,
            strict=True,
        )
    ]


def _batch(sink: Sink, rows: Rows) -> pa.RecordBatch:
    columns = {
        "key": encoded(rows.key, sink.key_serde, sink.topic),
        "value": encoded(rows.value, sink.value_serde, sink.topic),
        "timestamp": pa.array(rows.time.numbers * 1000).cast(_MICROSECONDS),
    }
    if rows.headers is not None:
        lists = [[{"key": name, "value": content} for name, content in row_headers] for row_headers in rows.headers]
        columns["headers"] = pa.array(lists, HEADER_TYPE)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _milliseconds(batch: pa.RecordBatch) -> Any:
    return np.asarray(batch.column("timestamp").cast(pa.int64())) // 1000


def _headers(column: pa.Array) -> list[Any] | None:
    """The headers of every row, None if no row has any."""
    if not len(column.flatten()):
        return None
    return [
        tuple((header["key"], header["value"]) for header in row_headers or ()) for row_headers in column.to_pylist()
    ]
