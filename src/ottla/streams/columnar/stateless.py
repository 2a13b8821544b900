"""Column forms of stateless operators. A function is called for every row in one loop, or once if it takes columns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from operator import not_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.streams.columnar.rows import Column, Numbers, Rows
from ottla.streams.columnar.step import Step, null_mask
from ottla.streams.dsl.functions import ignored_key
from ottla.streams.dsl.graph import has_key
from ottla.streams.machine.column_function import ColumnFunction
from ottla.streams.operators import stateless as operators

__all__ = ["Branches", "stateless_step"]

Function = Callable[[Any, Any], Any]


class FilterStep:
    def __init__(self, predicate: Any, *, keeps: bool = True) -> None:
        self._predicate = predicate
        self._keeps = keeps

    def run(self, rows: Rows) -> Rows:
        if isinstance(self._predicate, ColumnFunction):
            flags = self._predicate.apply(rows.key.array, rows.value.array)
            if pa.types.is_null(flags.type):
                flags = flags.cast(pa.bool_())
            mask: Any = np.asarray(pc.fill_null(flags, False))
            return rows.compressed(mask if self._keeps else ~mask)
        keeps = self._keeps
        if self._predicate is has_key and keeps:
            mask = null_mask(rows.key, None)
            return rows if mask is None else rows.compressed(mask)
        results = map(self._predicate, rows.key.values, rows.value.values)
        return rows.compressed(list(map(bool if keeps else not_, results)))


class MapValuesStep:
    def __init__(self, mapper: Any) -> None:
        self._mapper = mapper
        self._of_value = ignored_key(mapper)

    def run(self, rows: Rows) -> Rows:
        of_value = self._of_value
        if isinstance(of_value, ColumnFunction):
            return replace(rows, value=Column(array=of_value.apply(rows.value.array)))
        if isinstance(self._mapper, ColumnFunction):
            return replace(rows, value=Column(array=self._mapper.apply(rows.key.array, rows.value.array)))
        if of_value is str and isinstance(rows.value, Numbers):
            return replace(rows, value=Column(array=rows.value.array.cast(pa.string())))
        if of_value is not None:
            return replace(rows, value=Column(list(map(of_value, rows.value.values))))
        return replace(rows, value=Column(list(map(self._mapper, rows.key.values, rows.value.values))))


class SelectKeyStep:
    def __init__(self, mapper: Any) -> None:
        self._mapper = mapper

    def run(self, rows: Rows) -> Rows:
        if isinstance(self._mapper, ColumnFunction):
            return replace(rows, key=Column(array=self._mapper.apply(rows.key.array, rows.value.array)))
        return replace(rows, key=Column(list(map(self._mapper, rows.key.values, rows.value.values))))


class MapStep:
    def __init__(self, mapper: Any) -> None:
        self._mapper = mapper

    def run(self, rows: Rows) -> Rows:
        keys, values = [], []
        for key, value in map(self._mapper, rows.key.values, rows.value.values):
            keys.append(key)
            values.append(value)
        return replace(rows, key=Column(keys), value=Column(values))


class FlatMapStep:
    def __init__(self, mapper: Any) -> None:
        self._mapper = mapper

    def run(self, rows: Rows) -> Rows:
        keys: list[Any] = []
        values: list[Any] = []
        places: list[int] = []
        for place, pairs in enumerate(map(self._mapper, rows.key.values, rows.value.values)):
            for key, value in pairs:
                keys.append(key)
                values.append(value)
                places.append(place)
        return replace(_repeated(rows, places), key=Column(keys), value=Column(values))


class FlatMapValuesStep:
    def __init__(self, mapper: Any) -> None:
        self._mapper = mapper
        self._of_value = ignored_key(mapper)

    def run(self, rows: Rows) -> Rows:
        if self._of_value is None:
            results = map(self._mapper, rows.key.values, rows.value.values)
        else:
            results = map(self._of_value, rows.value.values)
        values: list[Any] = []
        ends = []
        for new_values in results:
            values.extend(new_values)
            ends.append(len(values))
        places: Any = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        indexes = places.tolist()
        return replace(_repeated(rows, indexes), key=rows.key.taken(indexes), value=Column(values))


def _repeated(rows: Rows, places: list[int]) -> Rows:
    """Timestamps, headers and order of the rows at these places, without keys and values."""
    return Rows(
        Column(),
        Column(),
        rows.time.taken(places),
        None if rows.headers is None else [rows.headers[place] for place in places],
        None if rows.order is None else [rows.order[place] for place in places],
    )


class PeekStep:
    def __init__(self, action: Function, *, forwards: bool = True) -> None:
        self._action = action
        self._forwards = forwards

    def run(self, rows: Rows) -> Rows:
        for key, value in zip(rows.key.values, rows.value.values, strict=True):
            self._action(key, value)
        return rows if self._forwards else rows.sliced(0, 0)


class PassStep:
    def run(self, rows: Rows) -> Rows:
        return rows


class Branches:
    """Splits rows among children: by the first predicate that is true, else to the default child, if there is one."""

    def __init__(self, predicates: list[Function], children: list[str]) -> None:
        self._predicates = predicates
        self._children = children

    def split(self, rows: Rows) -> list[tuple[str, Rows]]:
        chosen = []
        for key, value in zip(rows.key.values, rows.value.values, strict=True):
            index = 0
            for predicate in self._predicates:
                if predicate(key, value):
                    break
                index += 1
            chosen.append(index)
        return [
            (child, rows.compressed([choice == index for choice in chosen]))
            for index, child in enumerate(self._children)
        ]


_STEPS: dict[Any, Any] = {
    operators.Filter: FilterStep,
    operators.MapValues: MapValuesStep,
    operators.SelectKey: SelectKeyStep,
    operators.Map: MapStep,
    operators.FlatMap: FlatMapStep,
    operators.FlatMapValues: FlatMapValuesStep,
    operators.Peek: PeekStep,
    operators.Foreach: functools.partial(PeekStep, forwards=False),
}


def stateless_step(supplier: Any) -> Step | None:
    """The column form of a stateless operator, or None."""
    if supplier in (operators.PassThrough, operators.ToStream):
        return PassStep()
    if isinstance(supplier, functools.partial) and supplier.func in _STEPS:
        step: Step = _STEPS[supplier.func](*supplier.args, **supplier.keywords)
        return step
    return None
