"""The column form of a task: whole batches as Arrow columns, for sub-topologies that are simple enough.

A sub-topology has a column form if it is one chain from a source to a sink, of filters and maps by `columns` functions,
of `count` by key, and of `str` as a map of counts. Everything else runs record by record. Both forms give the same
records in the same order and share their stores.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.streams.dsl.functions import ignored_key
from ottla.streams.machine.column_function import ColumnFunction
from ottla.streams.machine.task import InputRecord, StreamTask
from ottla.streams.operators.aggregates import Aggregate
from ottla.streams.operators.stateless import Filter, MapValues, PassThrough, ToStream
from ottla.streams.serdes import FunctionSerde, Serde
from ottla.streams.state.key_value import TimestampedKeyValueStore
from ottla.streams.topology.topology import ProcessorNode, SinkNode, SourceNode, Topology

__all__ = ["ColumnTask", "column_task", "records_of"]

_MICROSECONDS = pa.timestamp("us", tz="UTC")
_TYPES = {"bytes_": pa.binary(), "string": pa.string()}


class _Columns(NamedTuple):
    key: pa.Array
    value: pa.Array
    # Milliseconds.
    timestamp: Any
    headers: pa.Array

    def take(self, mask: Any) -> _Columns:
        kept = pa.array(mask)
        return _Columns(self.key.filter(kept), self.value.filter(kept), self.timestamp[mask], self.headers.filter(kept))


class _Step:
    def run(self, rows: _Columns, task: StreamTask) -> _Columns:
        raise NotImplementedError


class _FilterStep(_Step):
    def __init__(self, function: ColumnFunction, *, keeps: bool) -> None:
        self._function = function.function
        self._keeps = keeps

    def run(self, rows: _Columns, task: StreamTask) -> _Columns:  # noqa: ARG002
        found = pc.fill_null(self._function(rows.key, rows.value), False)
        mask = np.asarray(found)
        return rows.take(mask if self._keeps else ~mask)


class _MapStep(_Step):
    def __init__(self, function: ColumnFunction) -> None:
        self._function = function.function

    def run(self, rows: _Columns, task: StreamTask) -> _Columns:  # noqa: ARG002
        return rows._replace(value=self._function(rows.value))


class _TextStep(_Step):
    """`str` of whole numbers."""

    def run(self, rows: _Columns, task: StreamTask) -> _Columns:  # noqa: ARG002
        return rows._replace(value=rows.value.cast(pa.string()))


class _CountStep(_Step):
    def __init__(self, store: str) -> None:
        self._store = store

    def run(self, rows: _Columns, task: StreamTask) -> _Columns:
        """Running counts and largest timestamps by key; the store is read and written once for every key."""
        mask = np.asarray(pc.and_(pc.is_valid(rows.key), pc.is_valid(rows.value)))
        if not mask.all():
            rows = rows.take(mask)
        if not len(rows.key):
            return rows._replace(value=pa.array([], pa.int64()))
        encoded = rows.key.dictionary_encode()
        codes = np.asarray(encoded.indices).astype(np.int64)
        keys = [key.encode() if isinstance(key, str) else key for key in encoded.dictionary.to_pylist()]
        store: Any = task.stores[self._store]
        before = [store.raw_get(key) for key in keys]
        counts = np.array([0 if row is None else int.from_bytes(row[0], "big") for row in before], np.int64)
        times = np.array([-1 if row is None else row[1] for row in before], np.int64)
        running, latest = _running(codes, rows.timestamp, len(keys))
        found = counts[codes] + running
        stamps = np.maximum(times[codes], latest)
        last: Any = np.empty(len(keys), np.int64)
        last[codes] = np.arange(len(codes))
        contents = found[last].astype(">i8").tobytes()
        for index, (key, time) in enumerate(zip(keys, stamps[last].tolist(), strict=True)):
            store.raw_put(key, contents[8 * index : 8 * index + 8], time)
        return _Columns(rows.key, pa.array(found), stamps, rows.headers)


def _running(codes: Any, timestamps: Any, keys: int) -> tuple[Any, Any]:
    """For every row: how many rows of its key there are so far, and their largest timestamp."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    running: Any = np.empty(len(codes), np.int64)
    running[order] = np.arange(len(ordered)) - np.repeat(starts, lengths) + 1
    # Keys get ranges of time that do not overlap, so that one running maximum serves all of them.
    lowest = timestamps.min()
    span = int(timestamps.max() - lowest) + 1
    shift: Any = np.repeat(np.arange(len(starts)), lengths) * span
    latest: Any = np.empty(len(codes), np.int64)
    latest[order] = np.maximum.accumulate(timestamps[order] - lowest + shift) - shift + lowest
    assert len(starts) == keys
    return running, latest


class ColumnTask:
    """Processes Arrow batches of a task's input partition, with the columns of `ottla.client.columns`."""

    def __init__(
        self, task: StreamTask, steps: list[_Step], kinds: tuple[pa.DataType, pa.DataType], topic: str, is_long: bool
    ) -> None:
        self._task = task
        self._steps = steps
        self._kinds = kinds
        self._topic = topic
        self._is_long = is_long

    def process(self, batch: pa.RecordBatch) -> tuple[str, pa.RecordBatch] | None:
        """The rows for the sink's topic. Raises ArrowInvalid for text that is not UTF-8, before anything is changed."""
        times = np.asarray(batch.column("timestamp").cast(pa.int64())) // 1000
        rows = _Columns(
            batch.column("key").cast(self._kinds[0]),
            batch.column("value").cast(self._kinds[1]),
            times,
            batch.column("headers"),
        )
        if len(times) and times.min() < 0:
            rows = rows.take(times >= 0)
        if len(rows.timestamp):
            place = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
            self._task.advance_time(*place, int(rows.timestamp.max()))
        for step in self._steps:
            rows = step.run(rows, self._task)
        if not len(rows.key):
            return None
        value = _big_endian(rows.value) if self._is_long else rows.value.cast(pa.binary())
        columns = {
            "key": rows.key.cast(pa.binary()),
            "value": value,
            "timestamp": pa.array(rows.timestamp * 1000).cast(_MICROSECONDS),
            "headers": rows.headers,
        }
        return self._topic, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _big_endian(numbers: pa.Array) -> pa.Array:
    content = np.asarray(numbers).astype(">i8").tobytes()
    fixed = pa.Array.from_buffers(pa.binary(8), len(numbers), [None, pa.py_buffer(content)])
    return fixed.cast(pa.binary())


def records_of(batch: pa.RecordBatch) -> list[InputRecord]:
    """The rows of a batch as records."""
    times = (np.asarray(batch.column("timestamp").cast(pa.int64())) // 1000).tolist()
    headers = batch.column("headers").to_pylist()
    return [
        InputRecord(key, value, time, offset, tuple((one["key"], one["value"]) for one in found or ()))
        for key, value, time, offset, found in zip(
            batch.column("key").to_pylist(),
            batch.column("value").to_pylist(),
            times,
            batch.column("offset").to_pylist(),
            headers,
            strict=True,
        )
    ]


def column_task(topology: Topology, names: tuple[str, ...], task: StreamTask) -> ColumnTask | None:
    """The column form of a task, or None if its sub-topology has none."""
    chain = _chain(topology, names)
    if chain is None:
        return None
    source, processors, sink = chain
    settings = task.settings
    key, value = settings.resolve_key(source.key_serde), settings.resolve_value(source.value_serde)
    kinds = _TYPES.get(_standard(key)), _TYPES.get(_standard(value))
    if kinds[0] is None or kinds[1] is None or source.timestamp_extractor is not None:
        return None
    steps, is_number = _steps(processors, task)
    target = _standard(settings.resolve_value(sink.value_serde))
    is_fitting = target == "long" if is_number else target in _TYPES
    if steps is None or not is_fitting or _standard(settings.resolve_key(sink.key_serde)) != _standard(key):
        return None
    assert isinstance(sink.topic, str)
    name = settings.internal_topic(sink.topic) if sink.topic in topology.internal_topics else sink.topic
    return ColumnTask(task, steps, (kinds[0], kinds[1]), name, is_number)


def _chain(topology: Topology, names: tuple[str, ...]) -> tuple[SourceNode, list[ProcessorNode], SinkNode] | None:
    nodes = [topology.nodes[name] for name in names]
    sources = [node for node in nodes if isinstance(node, SourceNode)]
    sinks = [node for node in nodes if isinstance(node, SinkNode)]
    if len(sources) != 1 or len(sinks) != 1 or sinks[0].partitioner is not None or not isinstance(sinks[0].topic, str):
        return None
    processors: list[ProcessorNode] = []
    name = sources[0].name
    while True:
        children = topology.children(name)
        if len(children) != 1:
            return None
        node = topology.nodes[children[0]]
        if isinstance(node, SinkNode):
            return (sources[0], processors, sinks[0]) if len(processors) + 2 == len(nodes) else None
        assert isinstance(node, ProcessorNode)
        processors.append(node)
        name = node.name


def _steps(processors: list[ProcessorNode], task: StreamTask) -> tuple[list[_Step] | None, bool]:
    """The steps, and whether the last value is a number; None if a processor has no column form."""
    steps: list[_Step] = []
    is_number = False
    for node in processors:
        supplier = node.supplier
        if isinstance(supplier, Aggregate):
            store = task.stores[supplier.store]
            if not supplier.is_count or supplier.sends_old or type(store) is not TimestampedKeyValueStore:
                return None, False
            if not store.is_counting:
                return None, False
            steps.append(_CountStep(supplier.store))
            is_number = True
            continue
        if supplier in (PassThrough, ToStream):
            continue
        step = _function_step(supplier, is_number=is_number)
        if step is None:
            return None, False
        steps.append(step)
        is_number = is_number and not isinstance(step, _TextStep)
    return steps, is_number


def _function_step(supplier: Any, *, is_number: bool) -> _Step | None:
    if not isinstance(supplier, functools.partial):
        return None
    function = supplier.args[0] if supplier.args else None
    if supplier.func is Filter and isinstance(function, ColumnFunction):
        return _FilterStep(function, keeps=supplier.keywords.get("keeps", True))
    if supplier.func is MapValues:
        inner = ignored_key(function)
        if inner is str and is_number:
            return _TextStep()
        if isinstance(inner, ColumnFunction) and not is_number:
            return _MapStep(inner)
    return None


def _standard(serde: Serde) -> str:
    return serde.name if isinstance(serde, FunctionSerde) and serde.is_standard else ""
