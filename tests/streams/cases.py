"""Cases as JSON, run by our own test driver: the operators and functions of `oracle/StreamsOracle.java`."""

from __future__ import annotations

from typing import Any

from ottla.streams import (
    Branched,
    BufferConfig,
    Consumed,
    EmitStrategy,
    FixedKeyProcessor,
    GlobalKTable,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Repartitioned,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
    Windowed,
)
from ottla.streams.record import Headers

__all__ = ["run_case"]

TEXT = Serdes.string()
Step = dict[str, Any]


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """Runs a case with our test driver; returns the answer in the oracle's format."""
    config = {"application.id": "oracle", "default.key.serde": TEXT, "default.value.serde": TEXT}
    config |= case.get("config", {})
    topology = CaseBuilder().build(case["topology"], config)
    answer: dict[str, Any] = {"description": topology.describe(), "steps": []}
    with TopologyTestDriver(topology, config) as driver:
        outputs = {topic: driver.create_output_topic(topic, TEXT, TEXT) for topic in case["outputs"]}
        for number, step in enumerate(case["inputs"]):
            if isinstance(step[0], int):
                driver.advance_wall_clock_time(step[0])
            else:
                # The header shows which inputs a result got its headers from.
                driver.create_input_topic(step[0], TEXT, TEXT).pipe_input(*step[1:], (("n", str(number).encode()),))
            answer["steps"].append(
                [
                    [topic, record.key, record.value, record.timestamp, headers_text(record.headers)]
                    for topic, output in outputs.items()
                    for record in output.read_records()
                ]
            )
        internal: dict[str, list[list[Any]]] = {}
        for topic, records in driver.written.items():
            if topic.startswith("oracle-"):
                internal[topic] = [
                    [as_hex(record.key), as_hex(record.value), record.timestamp, headers_text(record.headers)]
                    for record in records
                ]
        for store, changes in driver.changelogs.items():
            internal[f"oracle-{store}-changelog"] = [
                [
                    as_hex(change.key),
                    as_hex(change.value),
                    None if change.timestamp < 0 else change.timestamp,
                    headers_text(change.headers),
                ]
                for change in changes
            ]
        answer["internal"] = internal
    return answer


def headers_text(headers: Headers) -> str:
    return "".join(f"{name}={as_hex(content)};" for name, content in headers)


def as_hex(content: bytes | None) -> str | None:
    return None if content is None else content.hex()


def first(value: Any) -> str | None:
    return value[0] if value else None


def is_even(value: Any) -> bool:
    return value is not None and len(str(value)) % 2 == 0


def text_of(key: Any) -> Any:
    if isinstance(key, Windowed):
        return f"{key.key}@{key.window.start}/{key.window.end}"
    return None if key is None else str(key)


def java_text(value: Any) -> str:
    return "null" if value is None else str(value)


def joined(left: Any, right: Any) -> str:
    return f"{java_text(left)}+{java_text(right)}"


def append(aggregate: Any, value: Any) -> str:
    return f"{java_text(aggregate)}.{java_text(value)}"


def remove(aggregate: Any, value: Any) -> str:
    return f"{java_text(aggregate)}-{java_text(value)}"


class Counting(Processor):
    def __init__(self, step: Step) -> None:
        self._step = step

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._step["store"])
        for name, kind, key in (
            ("stream_time", PunctuationType.STREAM_TIME, "stream"),
            ("wall_clock", PunctuationType.WALL_CLOCK_TIME, "wall"),
        ):
            if name in self._step:
                context.schedule(
                    self._step[name], kind, lambda now, key=key: context.forward(Record(key, str(now), now))
                )

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        count = (self._store.get(record.key) or 0) + 1
        self._store.put(record.key, None if count % 4 == 0 else count)
        self.context.forward(record.with_value(f"{java_text(record.value)}#{count}"))


class CountingValues(FixedKeyProcessor):
    def __init__(self, store: str) -> None:
        self._name = store

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._name)

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        count = (self._store.get(record.key) or 0) + 1
        self._store.put(record.key, count)
        self.context.forward(record.with_value(f"{java_text(record.value)}#{count}"))
        if count % 2 == 0:
            self.context.forward(record.with_value(str(count)).with_timestamp(record.timestamp + 1))


class CaseBuilder:
    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.nodes: dict[str, Any] = {}

    def build(self, steps: list[Step], config: dict[str, Any]) -> Any:
        for step in steps:
            kind, _, operation = step["op"].partition("_")
            kinds = {"t": self.table, "g": self.grouped, "j": self.join}
            method = kinds.get(kind) if kind in kinds else getattr(self, f"op_{step['op']}", None)
            stream = self.nodes.get(step.get("in", ""))
            if kind in kinds:
                assert method is not None
                self.nodes[step.get("id", "")] = method(operation, step, stream)
            else:
                assert method is not None, step
                self.nodes[step.get("id", "")] = method(step, stream)
        return self.builder.build(config)

    # Sources.

    def op_stream(self, step: Step, _: Any) -> KStream:
        consumed = Consumed.with_(TEXT, TEXT)
        return self.builder.stream(step["topic"], consumed.with_name(step["name"]) if "name" in step else consumed)

    def op_table(self, step: Step, _: Any) -> KTable:
        materialized = None
        if "versioned" in step:
            materialized = Materialized.as_(Stores.versioned_key_value(step["store"], step["versioned"]))
        elif "store" in step:
            materialized = Materialized.as_(step["store"])
        return self.builder.table(step["topic"], Consumed.with_(TEXT, TEXT), materialized)

    def op_global_table(self, step: Step, _: Any) -> GlobalKTable:
        return self.builder.global_table(step["topic"], Consumed.with_(TEXT, TEXT))

    def op_add_store(self, step: Step, _: Any) -> Any:
        if "entries" in step:
            return self.builder.add_state_store(Stores.lru_map(step["store"], step["entries"], TEXT, Serdes.long()))
        return self.builder.add_state_store(Stores.key_value(step["store"], TEXT, Serdes.long()))

    # Streams.

    def op_filter(self, step: Step, stream: KStream) -> KStream:
        return stream.filter(lambda _, value: is_even(value), step.get("name"))

    def op_filter_not(self, step: Step, stream: KStream) -> KStream:
        return stream.filter_not(lambda _, value: is_even(value))

    def op_map(self, step: Step, stream: KStream) -> KStream:
        return stream.map(lambda key, value: (first(value), f"{java_text(key)}:{java_text(value)}"))

    def op_map_values(self, step: Step, stream: KStream) -> KStream:
        return stream.map_values(lambda value: None if value is None else f"<{value}>", step.get("name"))

    def op_map_values_key(self, step: Step, stream: KStream) -> KStream:
        return stream.map_values(lambda key, value: f"{java_text(key)}={java_text(value)}")

    def op_flat_map(self, step: Step, stream: KStream) -> KStream:
        return stream.flat_map(lambda _, value: [(letter, value) for letter in value or ""])

    def op_flat_map_values(self, step: Step, stream: KStream) -> KStream:
        return stream.flat_map_values(lambda value: list(value or ""))

    def op_select_key(self, step: Step, stream: KStream) -> KStream:
        return stream.select_key(lambda _, value: first(value))

    def op_split(self, step: Step, stream: KStream) -> KStream:
        branches = (
            stream.split(f"{step['id']}-")
            .branch(lambda _, value: value is not None and value.startswith("a"), Branched.as_("a"))
            .branch(lambda _, value: is_even(value), Branched.as_("even"))
            .default_branch(Branched.as_("rest"))
        )
        self.nodes |= branches
        return stream

    def op_merge(self, step: Step, stream: KStream) -> KStream:
        return stream.merge(self.nodes[step["other"]])

    def op_peek(self, step: Step, stream: KStream) -> KStream:
        return stream.peek(lambda *_: None)

    def op_repartition(self, step: Step, stream: KStream) -> KStream:
        how = Repartitioned.with_(TEXT, TEXT)
        return stream.repartition(how.with_name(step["name"]) if "name" in step else how)

    def op_to_table(self, step: Step, stream: KStream) -> KTable:
        how = Materialized.as_(step["store"]) if "store" in step else Materialized()
        return stream.to_table(how.with_key_serde(TEXT).with_value_serde(TEXT))

    def op_group_by(self, step: Step, stream: KStream) -> Any:
        grouped = Grouped.with_(TEXT, TEXT)
        return stream.group_by(
            lambda _, value: first(value), grouped.with_name(step["name"]) if "name" in step else grouped
        )

    def op_group_by_key(self, step: Step, stream: KStream) -> Any:
        return stream.group_by_key(Grouped.with_(TEXT, TEXT))

    def op_process(self, step: Step, stream: KStream) -> KStream:
        return stream.process(lambda: Counting(step), step["store"])

    def op_process_values(self, step: Step, stream: KStream) -> KStream:
        return stream.process_values(lambda: CountingValues(step["store"]), step["store"])

    def op_text(self, step: Step, stream: KStream) -> KStream:
        return stream.map(lambda key, value: (text_of(key), None if value is None else str(value)))

    def op_to(self, step: Step, stream: KStream) -> KStream:
        stream.to(step["topic"], Produced.with_(TEXT, TEXT))
        return stream

    def op_to_dynamic(self, step: Step, stream: KStream) -> KStream:
        stream.to(lambda _, value, __: "even" if is_even(value) else "odd", Produced.with_(TEXT, TEXT))
        return stream

    # Joins of streams.

    def join(self, operation: str, step: Step, stream: KStream) -> KStream:
        other = self.nodes[step["other"]]
        method = {"left": stream.left_join, "outer": stream.outer_join}.get(operation, stream.join)
        if isinstance(other, GlobalKTable):
            return method(other, lambda _, value: first(value), joined)
        if isinstance(other, KTable):
            how = Joined(TEXT, TEXT, TEXT, step.get("name"), step.get("grace"))
            return method(other, joined, how)
        windows = JoinWindows.of_time_difference_and_grace(step["size"], step.get("grace", 0))
        windows = windows.before(step["before"]) if "before" in step else windows
        windows = windows.after(step["after"]) if "after" in step else windows
        streams = StreamJoined(TEXT, TEXT, TEXT, step.get("name"), step.get("store"))
        return method(other, joined, windows, streams)

    # Groups and aggregates.

    def grouped(self, operation: str, step: Step, stream: Any) -> Any:
        size, grace = step.get("size", 0), step.get("grace", 0)
        windows: Any
        if operation == "time":
            windows = TimeWindows.of_size_and_grace(size, grace)
            windows = windows.advance_by(step["advance"]) if "advance" in step else windows
        elif operation == "sliding":
            windows = SlidingWindows.of_time_difference_and_grace(size, grace)
        elif operation == "session":
            windows = SessionWindows.of_inactivity_gap_and_grace(size, grace)
        elif operation == "cogroup":
            mark = step.get("mark", ".")

            def aggregator(key: Any, value: Any, aggregate: Any) -> str:
                return f"{java_text(aggregate)}{mark}{java_text(value)}"

            return (
                self.nodes[step["other"]].cogroup(stream, aggregator) if "other" in step else stream.cogroup(aggregator)
            )
        else:
            return self.aggregate(operation, step, stream)
        windowed = stream.windowed_by(windows)
        return windowed.emit_strategy(EmitStrategy.on_window_close()) if step.get("emit") == "close" else windowed

    def aggregate(self, operation: str, step: Step, stream: Any) -> Any:
        store = None
        if "store" in step:
            store = Materialized.as_(step["store"])
        elif operation != "count" or "retention" in step:
            store = Materialized()
        if store is not None:
            store = store.with_key_serde(TEXT).with_value_serde(Serdes.long() if operation == "count" else TEXT)
            store = store.with_retention(step["retention"]) if "retention" in step else store
        kind = type(stream).__name__
        if operation == "count":
            return stream.count(store)
        if kind == "CogroupedKStream":
            return stream.aggregate(str, store)
        if kind == "WindowedCogroupedKStream":
            return stream.aggregate(str, lambda _, a, b: f"({java_text(a)}{java_text(b)})", store)
        if kind == "KGroupedTable":
            if operation == "reduce":
                return stream.reduce(append, remove, store)
            return stream.aggregate(str, lambda _, v, a: append(a, v), lambda _, v, a: remove(a, v), store)
        if operation == "reduce":
            return stream.reduce(append, store)
        if kind == "SessionWindowedKStream":
            return stream.aggregate(
                str, lambda _, v, a: append(a, v), lambda _, a, b: f"({java_text(a)}{java_text(b)})", store
            )
        return stream.aggregate(str, lambda _, v, a: append(a, v), store)

    # Tables.

    def table(self, operation: str, step: Step, table: KTable) -> Any:
        store = None
        if "store" in step:
            store = Materialized.as_(step["store"]).with_key_serde(TEXT).with_value_serde(TEXT)
        other = self.nodes.get(step.get("other", ""))
        text = Materialized.with_(TEXT, TEXT)
        simple = {
            "filter": lambda: table.filter(lambda _, value: is_even(value), store),
            "filter_not": lambda: table.filter_not(lambda _, value: is_even(value), store),
            "map_values": lambda: table.map_values(lambda value: f"<{value}>", store),
            "group_by": lambda: table.group_by(lambda _, v: (first(str(v)), str(v)), Grouped.with_(TEXT, TEXT)),
            "to_stream": table.to_stream,
            "suppress_closed": lambda: table.suppress(
                Suppressed.until_window_closes(
                    BufferConfig.max_records(step["records"]).shut_down_when_full()
                    if "records" in step
                    else BufferConfig.unbounded()
                )
            ),
            "suppress_time": lambda: table.suppress(
                Suppressed.until_time_limit(
                    step["size"],
                    BufferConfig.max_records(step["records"])
                    if "records" in step
                    else BufferConfig.max_bytes(step["bytes"])
                    if "bytes" in step
                    else BufferConfig.unbounded(),
                )
            ),
            "join": lambda: table.join(other, joined, materialized=store),
            "left_join": lambda: table.left_join(other, joined, materialized=store),
            "outer_join": lambda: table.outer_join(other, joined, store),
            "fk_join": lambda: table.join(other, lambda v: first(str(v)), joined, materialized=text),
            "fk_left_join": lambda: table.left_join(other, lambda v: first(str(v)), joined, materialized=text),
        }
        return simple[operation]()
