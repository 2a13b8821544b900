"""Running applications: exactly once through restarts, kills and changes of the number of workers."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from examples.streams.word_count import build as word_count
from ottla.client.config.consumer import CONSUMER_KEYS
from ottla.client.config.producer import PRODUCER_KEYS
from ottla.model.ids import TopicPartition
from ottla.streams import (
    Application,
    Consumed,
    EmitStrategy,
    Grouped,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    State,
    Stores,
    StreamsBuilder,
    StreamsError,
    TimeWindows,
    TopologyError,
)
from ottla.streams.runtime.commit_metadata import CommitMetadata, decode_metadata, encode_metadata
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.keys import HONOURED, INERT
from tests.streams.live import Live, eventually

TEXT = Serdes.string()
ROOT = Path(__file__).resolve().parents[2]
_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    return f"app{next(_numbers)}"


def start(live: Live, topology: Any, name: str, **properties: Any) -> Application:
    settings = {
        "application.id": name,
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 20,
        "heartbeat.interval.ms": 100,
        "state.dir": live.state_directory,
        **{key if key.startswith("__") else key.replace("_", "."): value for key, value in properties.items()},
    }
    application = Application(topology, settings, runs_on="threads")
    application.start()
    application.wait_running(60)
    return application


def lines(count: int, seed: int = 0) -> list[tuple[None, str]]:
    return [(None, f"word{(seed + number) % 11} common") for number in range(count)]


def expected(*written: list[tuple[None, str]]) -> dict[str, int]:
    return dict(Counter(word for lines_of_turn in written for _, line in lines_of_turn for word in line.split()))


def assert_exact(live: Live, topic: str, wanted: dict[str, int]) -> None:
    """Every count of every word was emitted once, in order."""
    seen: dict[str, list[int]] = {}
    for key, value in live.read(topic):
        assert value is not None
        seen.setdefault(key, []).append(int(value))
    assert seen == {word: list(range(1, count + 1)) for word, count in wanted.items()}


def total(live: Live, topic: str) -> int:
    return len(live.read(topic))


def test_words_are_counted_and_the_group_shows_no_lag(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out")
    first, second = lines(300), lines(200, 5)
    live.write(f"{name}-in", first)
    states: list[tuple[State, State]] = []
    application = start(live, word_count(f"{name}-in", f"{name}-out"), name)
    application.set_state_listener(lambda new, old: states.append((new, old)))
    assert application.state is State.RUNNING
    live.write(f"{name}-in", second)
    eventually(lambda: total(live, f"{name}-out") >= 1000)
    eventually(lambda: live.lag(name) == 0)
    assert application.close()
    assert [new for new, _ in states] == [State.PENDING_SHUTDOWN, State.NOT_RUNNING]
    assert_exact(live, f"{name}-out", expected(first, second))
    assert {f"{name}-CountStore-repartition", f"{name}-CountStore-changelog"} <= live.topics()


@pytest.mark.parametrize("store", ["in_memory", "rocksDB"])
def test_an_application_goes_on_with_its_state_and_another_number_of_workers(live: Live, name: str, store: str) -> None:
    live.create(f"{name}-in", f"{name}-out")
    written = []
    for turn, workers in enumerate((3, 1, 2)):
        written.append(lines(150, turn))
        live.write(f"{name}-in", written[-1])
        application = start(
            live, word_count(f"{name}-in", f"{name}-out"), name, num_stream_threads=workers, default_dsl_store=store
        )
        if turn:
            # State on disk is complete after an orderly end: nothing is left to restore.
            restored = sum(report["restored"] for report in application.statistics().values())
            assert (restored > 0) is (store == "in_memory")
        eventually(lambda: total(live, f"{name}-out") >= sum(expected(*written).values()))
        assert application.close()
    assert_exact(live, f"{name}-out", expected(*written))


def test_instances_share_the_tasks_and_results_stay_exact(live: Live, name: str) -> None:
    """From one instance to four and back while records arrive; a task that does not move does not stop."""
    live.create(f"{name}-in", f"{name}-out", partitions=4)
    topology = word_count(f"{name}-in", f"{name}-out")
    written = [lines(200)]
    live.write(f"{name}-in", written[-1])
    running = [start(live, topology, name)]
    assert tasks_of(running) == [8]
    for shares in ([4, 4], [2, 3, 3], [2, 2, 2, 2]):
        running.append(start(live, topology, name))
        written.append(lines(200, len(written)))
        live.write(f"{name}-in", written[-1])
        eventually(lambda shares=shares: sorted(tasks_of(running)) == shares)
    members = live.admin.call(lambda admin: admin.groups.describe([name]))[name].members
    assert len(members) == 4
    assert sum(len(member.assignment) for member in members) == 8
    while len(running) > 1:
        assert running.pop(0).close()
        written.append(lines(200, len(written)))
        live.write(f"{name}-in", written[-1])
        eventually(lambda: sum(tasks_of(running)) == 8)
    eventually(lambda: total(live, f"{name}-out") >= sum(expected(*written).values()))
    eventually(lambda: live.lag(name) == 0)
    assert running[0].close()
    assert_exact(live, f"{name}-out", expected(*written))


def tasks_of(applications: list[Application]) -> list[int]:
    return [sum(len(report["tasks"]) for report in application.statistics().values()) for application in applications]


def test_a_worker_that_the_group_has_removed_commits_nothing(live: Live, name: str) -> None:
    """An instance that was silent too long restarts from the committed offsets, and counts no record twice."""
    live.create(f"{name}-in", f"{name}-out")
    application = start(live, word_count(f"{name}-in", f"{name}-out"), name)
    for turn in range(3):
        live.write(f"{name}-in", lines(20, turn))
        live.admin.call(lambda admin: admin.groups.remove_members(name))
    eventually(lambda: total(live, f"{name}-out") >= 120)
    eventually(lambda: live.lag(name) == 0)
    assert application.close()
    assert_exact(live, f"{name}-out", expected(*(lines(20, turn) for turn in range(3))))


def test_instances_with_another_topology_are_refused(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-other", f"{name}-out")
    first = start(live, word_count(f"{name}-in", f"{name}-out"), name)
    with pytest.raises(StreamsError, match="run another topology"):
        start(live, word_count(f"{name}-other", f"{name}-out"), name).wait(30)
    assert first.close()


def test_a_partitioner_knows_the_number_of_partitions(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=3)
    builder = StreamsBuilder()
    last = Produced.with_(TEXT, TEXT).with_stream_partitioner(lambda topic, key, value, count: count - 1)
    builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).to(f"{name}-out", last)
    live.write(f"{name}-in", [("a", "1"), ("b", "2")])
    application = start(live, builder.build(), name)
    eventually(lambda: len(live.read(f"{name}-out")) == 2)
    assert application.close()
    places = [TopicPartition(f"{name}-out", number) for number in range(3)]
    ends = live.admin.call(lambda admin: admin.offsets.numbers(places, -1))
    assert [ends[place] > 0 for place in places] == [False, False, True]


@pytest.mark.slow
def test_counts_are_exact_through_kills(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out")
    command = [sys.executable, "-m", "examples.streams.word_count", "--threads", "--workers", "2"]
    command += ["--bootstrap-server", live.bootstrap, "--application-id", name, "--commit-interval-ms", "50"]
    command += ["--state-dir", live.state_directory]
    command += ["--input", f"{name}-in", "--output", f"{name}-out"]
    written: list[list[tuple[None, str]]] = []
    for turn in range(4):
        written.append(lines(2000, turn))
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert "running" in process.stdout.readline()
        before = total(live, f"{name}-out")
        live.write(f"{name}-in", written[-1])
        if turn < 3:
            # The instance is killed while it processes records.
            eventually(lambda before=before: total(live, f"{name}-out") > before)
            process.kill()
        else:
            eventually(lambda: total(live, f"{name}-out") >= sum(expected(*written).values()))
            process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0
    assert_exact(live, f"{name}-out", expected(*written))


class Ticking(Processor):
    """Counts in a store, and forwards the number of entries at every punctuation."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.store = context.get_state_store("seen")
        context.schedule(20, PunctuationType.WALL_CLOCK_TIME, self.on_time)

    def process(self, record: Record) -> None:
        self.store.put(record.key, record.value)

    def on_time(self, now_ms: int) -> None:
        size = self.store.approximate_num_entries()
        if size:
            self.context.forward(Record(f"size{size}", str(size), now_ms))


def test_tables_of_every_kind_are_joined(live: Live, name: str) -> None:
    topics = [f"{name}-{kind}" for kind in ("clicks", "users", "pages", "out", "ticks")]
    clicks, users, pages, out, ticks = topics
    live.create(*topics)
    live.write(users, [("u1", "Ada"), ("u2", "Bob")], timestamp_ms=1)
    live.write(pages, [("p1", "Home"), ("p2", "Help")], timestamp_ms=1)
    text = Consumed.with_(TEXT, TEXT)
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("seen", TEXT, TEXT))
    stream = builder.stream(clicks, text)
    named = stream.left_join(
        builder.table(users, text, Materialized.as_("users")), lambda page, user: f"{user or '?'},{page}"
    )
    joined_stream = named.join(
        builder.global_table(pages, text), lambda _, value: value.split(",")[1], lambda value, page: f"{value},{page}"
    )
    joined_stream.to(out, Produced.with_(TEXT, TEXT))
    stream.process(Ticking, "seen").to(ticks, Produced.with_(TEXT, TEXT))
    application = start(live, builder.build(), name, num_stream_threads=2)
    live.write(clicks, [("u1", "p1"), ("u2", "p2"), ("u3", "p1"), ("u1", "p3")], timestamp_ms=5)
    eventually(lambda: total(live, out) >= 3)
    assert sorted(live.read(out)) == [("u1", "Ada,p1,Home"), ("u2", "Bob,p2,Help"), ("u3", "?,p1,Home")]
    eventually(lambda: total(live, ticks) >= 3)
    assert application.close()


def test_a_closed_window_is_emitted_once_though_the_application_restarts(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    builder = StreamsBuilder()
    (
        builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT))
        .group_by_key(Grouped.with_(TEXT, TEXT))
        .windowed_by(TimeWindows.of_size_with_no_grace(10))
        .emit_strategy(EmitStrategy.on_window_close())
        .count()
        .to_stream(lambda key, _: f"{key.key}@{key.window.start}")
        .map_values(str)
        .to(f"{name}-out", Produced.with_(TEXT, TEXT))
    )
    at_once = {"__emit.interval.ms.kstreams.windowed.aggregation__": 0}
    for turn in range(3):
        application = start(live, builder.build(), name, **at_once)
        for timestamp in range(turn * 100, turn * 100 + 40, 10):
            live.write(f"{name}-in", [("k", "v"), ("k", "w")], timestamp_ms=timestamp)
        eventually(lambda: live.lag(name) == 0)
        assert application.close()
    starts = [start for turn in range(3) for start in range(turn * 100, turn * 100 + 40, 10)]
    assert live.read(f"{name}-out") == [(f"k@{start}", "2") for start in starts[:-1]]


def test_a_worker_that_has_caught_up_commits_before_the_interval_is_over(live: Live, name: str) -> None:
    """Results pass through both sub-topologies: the second reads what the first has committed."""
    live.create(f"{name}-in", f"{name}-out")
    input_lines = lines(20)
    intervals = {"commit_interval_ms": 3_600_000, "commit_interval_min_ms": 10}
    application = start(live, word_count(f"{name}-in", f"{name}-out"), name, **intervals)
    for _ in range(2):
        before = total(live, f"{name}-out")
        live.write(f"{name}-in", input_lines)
        eventually(lambda known=before: total(live, f"{name}-out") >= known + 40)
    eventually(lambda: live.lag(name) == 0)
    assert application.close()
    assert_exact(live, f"{name}-out", expected(input_lines, input_lines))


class Alarm(Processor):
    """Forwards a record some time after its arrival; the task is idle afterwards."""

    def process(self, record: Record) -> None:
        def ring(_: int) -> None:
            self.context.forward(record)
            alarm.cancel()

        alarm = self.context.schedule(30, PunctuationType.WALL_CLOCK_TIME, ring)
        self.context.commit()


def test_the_last_output_of_a_punctuation_is_committed(live: Live, name: str) -> None:
    """The input record is committed before the punctuation, and no other record follows."""
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    builder = StreamsBuilder()
    builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).process(Alarm).to(
        f"{name}-out", Produced.with_(TEXT, TEXT)
    )
    application = start(live, builder.build(), name, commit_interval_ms=3_000)
    live.write(f"{name}-in", [("k", "wake up")])
    eventually(lambda: total(live, f"{name}-out") == 1)
    assert application.close()


def test_at_least_once_needs_no_transactions(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out")
    topology = word_count(f"{name}-in", f"{name}-out")
    application = start(live, topology, name, processing_guarantee="at_least_once")
    written = lines(100)
    live.write(f"{name}-in", written)
    eventually(lambda: total(live, f"{name}-out") >= 200)
    eventually(lambda: live.lag(name) == 0)
    assert application.close()
    assert_exact(live, f"{name}-out", expected(written))


def test_at_least_once_results_do_not_wait_for_the_commit(live: Live, name: str) -> None:
    """Neither results nor records for the next task wait for a commit: commits are far apart by default."""
    live.create(f"{name}-in", f"{name}-out")
    input_lines = lines(20)
    properties = {"processing_guarantee": "at_least_once", "commit_interval_ms": 600_000}
    application = start(live, word_count(f"{name}-in", f"{name}-out"), name, **properties)
    live.write(f"{name}-in", input_lines)
    eventually(lambda: total(live, f"{name}-out") >= 40)
    assert live.lag(name) is None
    assert application.close()
    assert live.lag(name) == 0
    assert_exact(live, f"{name}-out", expected(input_lines))


def test_headers_and_dynamic_topics_arrive(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-a", f"{name}-b", partitions=1)
    builder = StreamsBuilder()
    builder.stream(f"{name}-in").to(lambda key, *_: f"{name}-{key.decode()}")
    application = start(live, builder.build(), name)
    live.write(f"{name}-in", [("a", "1"), ("b", "2"), ("a", None)])
    eventually(lambda: total(live, f"{name}-a") >= 2 and total(live, f"{name}-b") >= 1)
    assert live.read(f"{name}-a") == [("a", "1"), ("a", None)]
    assert application.close()


def test_missing_topics_and_unequal_partitions_are_explained(live: Live, name: str) -> None:
    builder = StreamsBuilder()
    builder.stream(f"{name}-absent").to(f"{name}-out")
    with pytest.raises(TopologyError, match=rf"no topic {name}-absent; create it"):
        start(live, builder.build(), name)
    live.create(f"{name}-two", partitions=2)
    live.create(f"{name}-three", partitions=3)
    builder = StreamsBuilder()
    builder.stream(f"{name}-two").join(builder.table(f"{name}-three"), lambda x, y: x).to(f"{name}-two")
    with pytest.raises(TopologyError, match="need equal numbers of partitions"):
        start(live, builder.build(), name)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"application.id": ""}, "application.id is missing"),
        ({"statestore.cache.max.bytes": -1}, "is less than 0"),
        ({"default.dsl.store": "disk"}, "is not rocksDB"),
        ({"processing.guarantee": "twice"}, "is not at_least_once"),
        ({"num.stream.threads": "many"}, "is not a number"),
        ({"rocksdb.config.setter": "x.Y"}, "do not use RocksDB"),
        ({"auto.offset.reset": "soon"}, "must be earliest"),
        ({"group.protocol": "streams"}, "are not used"),
        ({"consumer.enable.auto.commit": "true"}, "sets enable.auto.commit of its clients itself"),
        ({"transactional.id": "mine"}, "sets transactional.id of its clients itself"),
        ({"producer.lingr.ms": 1}, "did you mean linger.ms"),
        ({"restore.consumer.fetch.max.bytes": 1}, "take the settings with the prefix consumer"),
        ({"num.stream.thread": 1}, "did you mean num.stream.threads"),
        ({"producer.batch.size": "large"}, "batch.size"),
    ],
)
def test_settings_are_honoured_or_refused(properties: dict[str, Any], message: str) -> None:
    builder = StreamsBuilder()
    builder.stream("a").to("b")
    settings = {"application.id": "x", "bootstrap.servers": "localhost:1", **properties}
    with pytest.raises(StreamsError, match=message):
        Application(builder.build(), settings)


def test_keys_of_clients_and_internal_topics_are_honoured() -> None:
    config = ApplicationConfig.from_properties(
        {
            "application.id": "x",
            "bootstrap.servers": "localhost:1",
            "session.timeout.ms": 9_000,
            "consumer.session.timeout.ms": 8_000,
            "main.consumer.session.timeout.ms": 7_000,
            "consumer.fetch.max.bytes": 5_000,
            "producer.compression.type": "lz4",
            "topic.segment.bytes": 1_000_000,
            "max.poll.interval.ms": 60_000,
            # Kafka's default value of a key that has no meaning here.
            "rack.aware.assignment.strategy": "none",
        }
    )
    assert (config.consumer.session_timeout_ms, config.consumer.fetch_max_bytes) == (7_000, 5_000)
    assert (config.consumer.max_poll_interval_ms, config.producer.compression.name) == (60_000, "LZ4")
    assert config.topic_configs == {"segment.bytes": "1000000"}


def test_every_key_of_kafka_streams_is_known() -> None:
    """The keys of Kafka Streams 4.3.1, as its StreamsConfig lists them."""
    listed = (ROOT / "tests" / "streams" / "kafka-4.3-streams-keys.txt").read_text().split()
    known = HONOURED | set(INERT) | set(CONSUMER_KEYS) | set(PRODUCER_KEYS)
    assert [key for key in listed if key not in known] == []


def test_commit_metadata_is_that_of_kafka_streams() -> None:
    text = encode_metadata(1700000000000, {"store": 5})
    assert decode_metadata(text) == CommitMetadata(1700000000000, {"store": 5})
    assert encode_metadata(7, {}) == "AgAAAAAAAAAH"
    assert decode_metadata("") == decode_metadata("not ours") == CommitMetadata(-1, {})
