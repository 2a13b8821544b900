"""Stateless operators on streams: one record in, none, one or many out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.streams.machine.processor import Processor
from ottla.streams.record import Record

__all__ = [
    "Branch",
    "Filter",
    "FlatMap",
    "FlatMapValues",
    "Foreach",
    "Map",
    "MapValues",
    "PassThrough",
    "Peek",
    "Print",
    "SelectKey",
    "ToStream",
]


class Filter(Processor):
    def __init__(self, predicate: Callable[[Any, Any], bool], *, keeps: bool = True) -> None:
        self._predicate = predicate
        self._keeps = keeps

    def process(self, record: Record) -> None:
        if bool(self._predicate(record.key, record.value)) is self._keeps:
            self.context.forward(record)


class Map(Processor):
    """The mapper returns a pair of key and value."""

    def __init__(self, mapper: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self._mapper = mapper

    def process(self, record: Record) -> None:
        key, value = self._mapper(record.key, record.value)
        self.context.forward(Record(key, value, record.timestamp, record.headers))


class SelectKey(Processor):
    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        self._mapper = mapper

    def process(self, record: Record) -> None:
        self.context.forward(record.with_key(self._mapper(record.key, record.value)))


class MapValues(Processor):
    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        self._mapper = mapper

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(self._mapper(record.key, record.value)))


class FlatMap(Processor):
    """The mapper returns pairs of key and value."""

    def __init__(self, mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]) -> None:
        self._mapper = mapper

    def process(self, record: Record) -> None:
        for key, value in self._mapper(record.key, record.value):
            self.context.forward(Record(key, value, record.timestamp, record.headers))


class FlatMapValues(Processor):
    def __init__(self, mapper: Callable[[Any, Any], Iterable[Any]]) -> None:
        self._mapper = mapper

    def process(self, record: Record) -> None:
        for value in self._mapper(record.key, record.value):
            self.context.forward(record.with_value(value))


class Peek(Processor):
    def __init__(self, action: Callable[[Any, Any], object]) -> None:
        self._action = action

    def process(self, record: Record) -> None:
        self._action(record.key, record.value)
        self.context.forward(record)


class Foreach(Processor):
    def __init__(self, action: Callable[[Any, Any], object]) -> None:
        self._action = action

    def process(self, record: Record) -> None:
        self._action(record.key, record.value)


class Print(Processor):
    """Writes `[label]: key, value` to standard output, or to a function."""

    def __init__(self, label: str, mapper: Callable[[Any, Any], str] | None, write: Callable[[str], object]) -> None:
        self._label = label
        self._mapper = mapper
        self._write = write

    def process(self, record: Record) -> None:
        text = f"{record.key}, {record.value}" if self._mapper is None else self._mapper(record.key, record.value)
        self._write(f"[{self._label}]: {text}")


class PassThrough(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record)


class Branch(Processor):
    """Forwards to the child of the first predicate that holds, or to the default child if there is one."""

    def __init__(self, predicates: list[Callable[[Any, Any], bool]], children: list[str]) -> None:
        self._predicates = predicates
        self._children = children

    def process(self, record: Record) -> None:
        for index, predicate in enumerate(self._predicates):
            if predicate(record.key, record.value):
                self.context.forward(record, self._children[index])
                return
        if len(self._children) > len(self._predicates):
            self.context.forward(record, self._children[-1])


class ToStream(Processor):
    """Changes of a table as records: the new value, None for a deletion."""

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(record.value.new))
