"""The column form of session windows. Sessions of the keys of a batch are kept as values until its end."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

from ottla.streams.columnar.aggregates import Folding
from ottla.streams.columnar.bytes import encoded_values
from ottla.streams.columnar.rows import Column, Numbers, Rows, WindowedColumn
from ottla.streams.columnar.step import Step, without_nulls
from ottla.streams.operators.emission import EmitStrategy
from ottla.streams.operators.sessions import SessionAggregate
from ottla.streams.state.session import SessionStore

__all__ = ["session_step"]

# (end, start), the order in which sessions merge.
Place = tuple[int, int]


def session_step(plan: SessionAggregate, processor: Any, store: Any) -> Step | None:
    if plan.sends_old or type(store) is not SessionStore or plan.strategy is not EmitStrategy.ON_WINDOW_UPDATE:
        return None
    return SessionStep(plan, processor, store)


def _rows(emitted: list[tuple[Any, int, int, Any, int]], *, is_ordered: bool) -> Rows:
    """Rows of (key, end, start, value, position)."""
    if not emitted:
        return Rows(WindowedColumn([], [], []), Column([]), Numbers([]))
    keys, ends, starts, values, order = map(list, zip(*emitted, strict=True))
    return Rows(WindowedColumn(keys, starts, ends), Column(values), Numbers(ends), None, order if is_ordered else None)


class _Sessions(dict[Place, Any]):
    """The sessions of a key. Sessions do not overlap, so their starts are in the order of their ends."""

    def __init__(self, sessions: dict[Place, Any]) -> None:
        super().__init__(sessions)
        self._places = sorted(sessions)

    def between(self, earliest_end: int, latest_start: int) -> list[Place]:
        first = after = bisect_left(self._places, (earliest_end,))
        while after < len(self._places) and self._places[after][1] <= latest_start:
            after += 1
        return self._places[first:after]

    def put(self, place: Place, aggregate: Any) -> None:
        if place not in self:
            insort(self._places, place)
        self[place] = aggregate

    def remove(self, place: Place) -> None:
        # An aggregate may be None: a serde may read it from bytes.
        if place in self:
            del self[place]
            del self._places[bisect_left(self._places, place)]


class SessionStep:
    def __init__(self, plan: SessionAggregate, processor: Any, store: SessionStore) -> None:
        self._plan = plan
        self._processor = processor
        self._store = store
        self._folding = Folding(plan, store)

    def run(self, rows: Rows) -> Rows:
        rows = without_nulls(rows, self._processor, "null key", values=False)
        plan, store, fold = self._plan, self._store, self._folding
        out: list[tuple[Any, int, int, Any, int]] = []
        gap, grace = plan.windows.gap_ms, plan.windows.grace_ms
        retention = store.specification.retention_ms
        observed, expired_at, late = self._processor.observed, store.observed - retention, 0
        sessions: dict[bytes, _Sessions] = {}
        # The last change of every session: (value, timestamp of the record that changed it).
        changes: dict[tuple[bytes, Place], tuple[Any, int]] = {}
        initializer, aggregator, merger, plain = plan.initializer, plan.aggregator, plan.merger, fold.plain
        places = encoded_values(rows.key, store.key_serde, store.topic)
        columns = zip(places, rows.key.values, rows.value.values, rows.time.values, strict=True)
        order = rows.order or range(len(rows))
        earliest_end = min(rows.time.values, default=0) - gap
        for position, (place, key, value, time) in zip(order, columns, strict=True):
            if time > observed:
                observed = time
            key_sessions = sessions.get(place)
            if key_sessions is None:
                stored = store.raw_sessions(place, earliest_end).items()
                key_sessions = sessions[place] = _Sessions({at: fold.read(content) for at, content in stored})
            start = end = time
            earliest = time - gap if time - gap > expired_at else expired_at + 1
            merged = key_sessions.between(earliest, time + gap)
            aggregate = initializer()
            for at in merged:
                aggregate = merger(key, aggregate, key_sessions[at])
                if at[1] < start:
                    start = at[1]
                if at[0] > end:
                    end = at[0]
            if end < observed - grace - gap:
                late += 1
                continue
            if start != end or end != time:
                for at in merged:
                    key_sessions.remove(at)
                    changes.pop((place, at), None)
                    changes[place, at] = (None, time)
                    if at[0] - retention > expired_at:
                        expired_at = at[0] - retention
                    out.append((key, *at, None, position))
            new = aggregator(key, value, aggregate)
            at = (end, start)
            kept = new if type(new) is plain else fold.copied(new)
            if kept is None:
                key_sessions.remove(at)
            else:
                key_sessions.put(at, kept)
            changes.pop((place, at), None)
            changes[place, at] = (kept, time)
            if end - retention > expired_at:
                expired_at = end - retention
            out.append((key, end, start, new, position))
        self._finish(observed, late, changes)
        return _rows(out, is_ordered=rows.order is not None)

    def _finish(self, observed: int, late: int, changes: dict[tuple[bytes, Place], tuple[Any, int]]) -> None:
        self._processor.observed = observed
        if late:
            self._processor.context.drop("expired session", late)
        contents = self._folding.encoded([change[0] for change in changes.values()])
        self._store.raw_put_many(list(changes), contents, [change[1] for change in changes.values()])
