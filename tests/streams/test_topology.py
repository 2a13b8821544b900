"""The errors of a topology that is built wrongly, their messages, and the optimization of repartition topics."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.streams import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    KStream,
    Materialized,
    Repartitioned,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsError,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyTestDriver,
    ValueAndTimestamp,
)

TEXT, LONG = Serdes.string(), Serdes.long()


def join_with_other_partitions(builder: StreamsBuilder) -> None:
    left = builder.stream("a").repartition(Repartitioned.as_("l").with_number_of_partitions(2))
    right = builder.stream("b").repartition(Repartitioned.as_("r").with_number_of_partitions(3))
    left.join(right, lambda x, y: x, JoinWindows.of_time_difference_with_no_grace(5))


REFUSED: list[tuple[Callable[[StreamsBuilder], object], str]] = [
    (
        lambda builder: (builder.stream("a"), builder.add_state_store(Stores.key_value("s"))),
        "connected to no processor",
    ),
    (lambda builder: None, "reads no topic"),
    (lambda builder: (builder.stream(["a", "b"]), builder.stream("a")), "different sets of topics"),
    (lambda builder: builder.stream("a b"), "is not valid"),
    (lambda builder: builder.stream("a").filter(lambda *_: True, "x").filter(lambda *_: True, "x"), "already a node x"),
    (lambda builder: builder.stream("a").process(dict, "missing"), "no store missing"),
    (
        lambda builder: [builder.table(topic, materialized=Materialized.as_("s")) for topic in "ab"],
        "already a store s",
    ),
    (lambda builder: builder.table("a").suppress(Suppressed.until_window_closes(BufferConfig.unbounded())), "windowed"),
    (lambda builder: builder.stream("a", Consumed(offset_reset="newest")), "not earliest, latest or none"),
    (join_with_other_partitions, "l-repartition has 2, r-repartition has 3"),
]


@pytest.mark.parametrize(("build", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_wrong_topology_is_refused_with_a_sentence(build: Callable[[StreamsBuilder], object], message: str) -> None:
    def build_all() -> None:
        builder = StreamsBuilder()
        build(builder)
        builder.build()

    with pytest.raises(TopologyError, match=message):
        build_all()


def test_cycles_missing_parents_and_children_of_sinks_are_refused() -> None:
    topology = Topology().add_source("source", "a").add_sink("sink", "b", "source")
    with pytest.raises(TopologyError, match="no cycles"):
        topology.add_processor("p", dict, "p")
    with pytest.raises(TopologyError, match="no node nobody"):
        topology.add_processor("p", dict, "nobody")
    with pytest.raises(TopologyError, match="sinks forward nothing"):
        topology.add_processor("p", dict, "sink")
    with pytest.raises(TopologyError, match="has no parent"):
        topology.add_processor("p", dict)
    with pytest.raises(TopologyError, match="already read by source"):
        topology.add_source("again", "a")


def test_joined_topics_need_equal_partitions() -> None:
    builder = StreamsBuilder()
    builder.stream("a").join(builder.table("b"), lambda x, y: x).to("c")
    topology = builder.build()
    topology.check({"a": 3, "b": 3})
    with pytest.raises(TopologyError, match="a has 3, b has 4"):
        topology.check({"a": 3, "b": 4})


def test_windows_that_cannot_be_are_refused() -> None:
    with pytest.raises(TopologyError, match="longer than 0"):
        TimeWindows.of_size_with_no_grace(0)
    with pytest.raises(TopologyError, match="advance by"):
        TimeWindows.of_size_with_no_grace(5).advance_by(6)
    with pytest.raises(TopologyError, match="negative"):
        TimeWindows.of_size_and_grace(5, -1)


def test_an_unknown_optimization_is_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("a").to("b")
    with pytest.raises(TopologyError, match=r"no 'some'; choose none, all"):
        builder.build({"topology.optimization": "some"})


def test_a_value_that_no_serde_fits_is_explained() -> None:
    builder = StreamsBuilder()
    builder.stream("a", Consumed.with_(Serdes.string(), Serdes.string())).map_values(len).to("b")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(StreamsError, match=r"cannot write 3 \(int\) to b.*Produced.with_"):
        driver.create_input_topic("a", Serdes.string(), Serdes.string()).pipe_input("k", "abc")


def optimized(changes: Callable[[KStream], KStream], grouped: Grouped) -> Topology:
    """Two aggregates after changes of a stream, each with a repartition topic that the optimization may merge."""
    builder = StreamsBuilder()
    stream = changes(builder.stream("in", Consumed.with_(TEXT, TEXT)))
    stream.group_by_key(grouped).count(Materialized.as_("counts"))
    stream.group_by_key(grouped).reduce(lambda _, value: value, Materialized.as_("latest"))
    return builder.build({"topology.optimization": "all"})


def test_a_repartition_topic_stays_behind_an_operator_that_changes_values() -> None:
    def lengths(stream: KStream) -> KStream:
        return stream.select_key(lambda _, value: value[0]).map_values(len)

    topology = optimized(lengths, Grouped.with_(TEXT, LONG))
    assert len(topology.internal_topics) == 2
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "abc", 1)
        assert driver.get_state_store("counts").get("a") == ValueAndTimestamp(1, 1)
        assert driver.get_state_store("latest").get("a") == ValueAndTimestamp(3, 1)


def test_repartition_topics_behind_one_operator_become_one() -> None:
    def filtered(stream: KStream) -> KStream:
        return stream.select_key(lambda _, value: value[0]).filter(lambda _, value: len(value) > 1)

    topology = optimized(filtered, Grouped.with_(TEXT, TEXT))
    assert len(topology.internal_topics) == 1
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for time, value in enumerate(["abc", "a", "ad"]):
            topic.pipe_input("k", value, time)
        assert driver.get_state_store("counts").get("a") == ValueAndTimestamp(2, 2)
        assert driver.get_state_store("latest").get("a") == ValueAndTimestamp("ad", 2)
