"""The source of `format("ottla")` as Spark calls it, on a real cluster, without Spark: planning and reading."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

import ottla.testing
from ottla.client.admin.offsets import EARLIEST_LOCAL, FoundOffset, Offsets
from ottla.model.errors import ErrorCode, KafkaError
from ottla.spark.options import OptionError
from ottla.spark.source import fetch, planner
from ottla.spark.source.loss import DataLost
from ottla.spark.source.ranges import Range
from ottla.wire.messages.fetch import PartitionData
from tests.support.spark_reading import Stream, batch_reader, everything, rows, stream_reader, values
from tests.support.spark_topics import Topics, numbered

ALL = ReadAllAvailable()
# Settings for tests with many retries.
IMPATIENT = {"retry.backoff.ms": "20", "retry.backoff.max.ms": "20", "default.api.timeout.ms": "30000"}


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    """Topics on a new cluster, or on the cluster of OTTLA_TEST_BOOTSTRAP: Apache Kafka must give the same results."""
    bootstrap = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if bootstrap:
        cluster_topics = Topics(bootstrap)
        yield cluster_topics
        cluster_topics.close()
        return
    with ottla.testing.cluster(
        settings={"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "500"}
    ) as c:
        cluster_topics = Topics(c.bootstrap)
        yield cluster_topics
        cluster_topics.close()


# Batch queries.


def test_all_of_a_topic_with_every_column(topics: Topics) -> None:
    name = topics.create(partitions=2)
    topics.send(name, [(b"k", b"v", [("h", b"1")])], partition=1, timestamp_ms=1_700_000_000_123)
    reader = batch_reader(topics, subscribe=name)
    result_rows = rows(reader, reader.partitions())
    assert [(row["key"], row["value"], row["topic"], row["partition"], row["offset"]) for row in result_rows] == [
        (b"k", b"v", name, 1, 0)
    ]
    assert result_rows[0]["timestamp"].timestamp() == pytest.approx(1_700_000_000.123)
    assert result_rows[0]["headers"] == [{"key": "h", "value": b"1"}]
    assert "headers" not in rows(batch_reader(topics, subscribe=name, includeHeaders="false"), reader.partitions())[0]


def test_between_two_offsets(topics: Topics) -> None:
    name = topics.create(partitions=2)
    topics.send(name, numbered(0, 20))
    topics.send(name, numbered(20, 30), partition=1)
    reader = batch_reader(
        topics,
        subscribe=name,
        startingOffsets=json.dumps({name: {"0": 5, "1": -2}}),
        endingOffsets=json.dumps({name: {"0": 8, "1": -1}}),
    )
    assert everything(reader) == [*numbered(5, 8), *numbered(20, 30)]
    assert everything(batch_reader(topics, assign=json.dumps({name: [1]}))) == numbered(20, 30)


def test_between_two_times(topics: Topics) -> None:
    name = topics.create()
    for second in range(10):
        topics.send(name, [b"%d" % second], timestamp_ms=1_000_000 + second * 1000)
    reader = batch_reader(topics, subscribe=name, startingTimestamp="1002500", endingTimestamp="1006000")
    assert everything(reader) == numbered(3, 6)
    by_partition = json.dumps({name: {"0": 1_008_000}})
    assert everything(batch_reader(topics, subscribe=name, startingOffsetsByTimestamp=by_partition)) == numbered(8, 10)
    with pytest.raises(OptionError, match="no record as young"):
        batch_reader(topics, subscribe=name, startingTimestamp="99999999").partitions()
    with pytest.raises(OptionError, match="no record as young"):
        batch_reader(topics, subscribe=name, startingTimestamp="99999998", endingTimestamp="99999999").partitions()
    late = {"startingTimestamp": "99999999", "startingOffsetsByTimestampStrategy": "latest"}
    assert everything(batch_reader(topics, subscribe=name, **late)) == []
    # An ending timestamp after the last record means the end of the log, under every strategy.
    assert len(everything(batch_reader(topics, subscribe=name, endingTimestamp="99999999"))) == 10


def test_topics_by_pattern(topics: Topics) -> None:
    prefix = topics.name("pattern")
    for suffix in ("a", "b"):
        topics.send(topics.create(f"{prefix}.{suffix}"), [suffix.encode()])
    assert everything(batch_reader(topics, subscribePattern=rf"{prefix}\..*")) == [b"a", b"b"]


def test_large_ranges_are_split(topics: Topics) -> None:
    name = topics.create(partitions=2)
    topics.send(name, numbered(0, 90))
    topics.send(name, numbered(90, 100), partition=1)
    reader = batch_reader(topics, subscribe=name, minPartitions="10")
    pieces = reader.partitions()
    assert len(pieces) == 10
    assert values(rows(reader, pieces)) == numbered(0, 100)


def test_what_is_not_there(topics: Topics) -> None:
    with pytest.raises(KafkaError, match="There is no topic 'nowhere'"):
        batch_reader(topics, subscribe="nowhere").partitions()
    name = topics.create()
    with pytest.raises(KafkaError, match="has no partition 7"):
        batch_reader(topics, assign=json.dumps({name: [0, 7]})).partitions()
    with pytest.raises(OptionError, match="does not read"):
        batch_reader(topics, subscribe=name, startingOffsets='{"other": {"0": 1}}').partitions()


@pytest.mark.parametrize("compression", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(topics: Topics, compression: str) -> None:
    name = topics.create(compression_type=compression)
    topics.send(name, numbered(0, 500))
    assert everything(batch_reader(topics, subscribe=name)) == numbered(0, 500)
    assert everything(batch_reader(topics, subscribe=name, decoder="python")) == numbered(0, 500)


def test_many_fetches_make_one_range(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, [b"%06d" % number + bytes(2_000) for number in range(1_000)])
    reader = batch_reader(topics, subscribe=name, **{"max.partition.fetch.bytes": "100000", "batch.bytes": "50000"})
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert len(batches) > 20
    assert [row["offset"] for batch in batches for row in batch.to_pylist()] == list(range(1_000))


def test_a_compacted_topic_ends_where_it_ends(topics: Topics) -> None:
    name = topics.create(
        cleanup_policy="compact", segment_bytes="1048576", min_cleanable_dirty_ratio="0.001", segment_ms="100"
    )
    reader = batch_reader(topics, subscribe=name)
    result_rows: list[dict[str, Any]] = []
    for turn in range(1_000):
        topics.send(name, [(b"%d" % (number % 10), b"%d-%d" % (turn, number), ()) for number in range(100)])
        result_rows = rows(reader, reader.partitions())
        if len(result_rows) < (turn + 1) * 100:
            break
    # The log was compacted. Records that compaction removed are not missing.
    assert len(result_rows) < (turn + 1) * 100
    latest = {row["key"]: row["value"] for row in result_rows}
    assert latest == {b"%d" % number: b"%d-%d" % (turn, 90 + number) for number in range(10)}
    stream = Stream(topics, subscribe=name, maxOffsetsPerTrigger="17")
    latest_streamed: dict[bytes, bytes] = {}
    while (batch := stream.batch()) is not None:
        latest_streamed |= {value.partition(b"-")[2][-1:]: value for value in batch}
    assert set(latest_streamed.values()) == set(latest.values())


def test_an_empty_answer_is_the_end_only_of_what_the_broker_has_itself(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records in remote storage may not come in time: the fetch is then empty although the records exist."""
    name = topics.create()
    topics.send(name, numbered(0, 10))
    ask, find = fetch.RangeReader._ask, Offsets.find
    empty = PartitionData(partition_index=0, high_watermark=10, last_stable_offset=10, records=None)
    answers = [empty]

    async def pop_or_ask(reader: fetch.RangeReader) -> PartitionData:
        return answers.pop() if answers else await ask(reader)

    monkeypatch.setattr(fetch.RangeReader, "_ask", pop_or_ask)
    assert everything(batch_reader(topics, subscribe=name)) == []

    async def find_with_local_start(offsets: Offsets, times: Any, **options: Any) -> Any:
        if EARLIEST_LOCAL in times.values():
            return {time: FoundOffset(10, -1, 0) for time in times}
        return await find(offsets, times, **options)

    monkeypatch.setattr(Offsets, "find", find_with_local_start)
    answers += [empty, empty]
    assert everything(batch_reader(topics, subscribe=name, **IMPATIENT)) == numbered(0, 10)


# Streams.


def test_a_stream_begins_at_the_end_unless_told(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 10))
    stream = Stream(topics, subscribe=name, startingOffsets="latest")
    assert stream.batch() is None
    topics.send(name, numbered(10, 12))
    assert stream.batch() == numbered(10, 12)
    assert stream.batch() is None


def test_no_batch_is_larger_than_its_limit(topics: Topics) -> None:
    name = topics.create(partitions=2)
    topics.send(name, numbered(0, 90))
    topics.send(name, numbered(90, 100), partition=1)
    stream = Stream(topics, subscribe=name, maxOffsetsPerTrigger="30")
    assert stream.reader.getDefaultReadLimit() == ReadMaxRows(30)
    sizes = []
    streamed: list[bytes] = []
    while (batch := stream.batch()) is not None:
        sizes.append(len(batch))
        streamed += batch
    assert sizes == [30, 30, 30, 10]
    assert sorted(streamed) == sorted(numbered(0, 100))
    # A ReadAllAvailable trigger is not limited by maxOffsetsPerTrigger.
    other = stream_reader(topics, subscribe=name, maxOffsetsPerTrigger="30")
    assert other.latestOffset(other.initialOffset(), ALL)[name] == {"0": 90, "1": 10}


def test_limits_in_bytes(topics: Topics) -> None:
    name = topics.create()
    for _ in range(20):
        topics.send(name, [bytes(1_000)] * 50)
    stream = Stream(topics, subscribe=name, maxBytesPerTrigger="250000")
    assert stream.reader.getDefaultReadLimit() == ReadMaxBytes(250_000)
    sizes = []
    while (batch := stream.batch()) is not None:
        sizes.append(len(batch))
    assert sum(sizes) == 1_000
    assert 4 <= len(sizes) <= 6
    assert max(sizes) <= 250


def test_what_comes_after_the_trigger_now_is_not_read(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 10))
    stream = Stream(topics, subscribe=name)
    stream.reader.prepareForTriggerAvailableNow()
    topics.send(name, numbered(10, 20))
    topics.grow(name, 2)
    topics.send(name, numbered(20, 30), partition=1)
    assert stream.batch() == numbered(0, 10)
    assert stream.batch() is None
    latest = stream.reader.reportLatestOffset()
    assert latest is not None
    assert latest[name] == {"0": 20, "1": 10}


def test_partitions_and_topics_that_appear(topics: Topics) -> None:
    prefix = topics.name("grows")
    first = topics.create(f"{prefix}.1")
    stream = Stream(topics, subscribePattern=rf"{prefix}\..*", startingOffsets="latest")
    topics.grow(first, 2)
    second = topics.create(f"{prefix}.2")
    assert stream.batch() is None
    topics.send(first, [b"1"], partition=1)
    topics.send(second, [b"2"])
    assert stream.batch() == [b"1", b"2"]
    assert stream.offset["@id"] == {first: topics.id_of(first), second: topics.id_of(second)}
    assert stream.batch() is None


def test_a_leader_may_learn_late_of_what_metadata_names(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "_UNKNOWN_PAUSE_SECONDS", 0.01)
    name = topics.create()
    topics.send(name, numbered(0, 10))
    find, answers = Offsets.find, list[KafkaError]()

    async def find_after_errors(offsets: Offsets, times: Any, **options: Any) -> Any:
        return dict.fromkeys(times, answers.pop()) if answers else await find(offsets, times, **options)

    monkeypatch.setattr(Offsets, "find", find_after_errors)
    not_yet = [KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition here.")] * 2
    answers += not_yet
    stream = Stream(topics, subscribe=name)
    answers += not_yet
    end = stream.reader.latestOffset(stream.offset, ALL)
    answers += not_yet
    assert values(rows(stream.reader, stream.reader.partitions(stream.offset, end))) == numbered(0, 10)
    answers += not_yet
    assert everything(batch_reader(topics, subscribe=name)) == numbered(0, 10)


def test_aborted_records_and_markers_are_left_out(topics: Topics) -> None:
    name = topics.create()
    topics.send_transaction(name, numbered(0, 10), commit=True)
    topics.send_transaction(name, numbered(10, 20), commit=False)
    topics.send_transaction(name, numbered(20, 25), commit=True)
    topics.send_transaction(name, numbered(25, 30), commit=False)
    stream = Stream(topics, subscribe=name, maxOffsetsPerTrigger="4")
    streamed: list[bytes] = []
    while (batch := stream.batch()) is not None:
        streamed += batch
    assert streamed == [*numbered(0, 10), *numbered(20, 25)]
    assert stream.offset[name] == {"0": 34}
    assert everything(batch_reader(topics, subscribe=name, **{"isolation.level": "read_uncommitted"})) == numbered(
        0, 30
    )


def test_an_open_transaction_holds_up_only_who_reads_committed(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, [b"before"])
    with topics.open_transaction(name, [b"inside"]):
        topics.send(name, [b"after"])
        assert everything(batch_reader(topics, subscribe=name)) == [b"before"]
        uncommitted = batch_reader(topics, subscribe=name, **{"isolation.level": "read_uncommitted"})
        assert everything(uncommitted) == [b"before", b"inside", b"after"]
    assert everything(batch_reader(topics, subscribe=name)) == [b"before", b"inside", b"after"]


def test_a_log_that_was_trimmed(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 10))
    stream = Stream(topics, subscribe=name)
    assert stream.batch() == numbered(0, 10)
    # The deletion of records that were already read is no data loss.
    topics.delete_records(name, before=10)
    assert stream.batch() is None
    topics.send(name, numbered(10, 30))
    topics.delete_records(name, before=15)
    with pytest.raises(DataLost, match="offsets 10 to 14 were deleted"):
        stream.batch()
    stream.restart(onDataLoss="report")
    assert stream.batch() == numbered(15, 30)
    assert stream.offset["@lost"] == {name: {"0": 5}}
    assert stream.batch() is None
    topics.send(name, [b"more"])
    assert stream.batch() == [b"more"]
    assert "@lost" not in stream.offset


def test_a_log_that_is_trimmed_after_a_batch_was_planned(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 10))
    reader = stream_reader(topics, subscribe=name)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    pieces = reader.partitions(start, end)
    topics.delete_records(name, before=4)
    with pytest.raises(DataLost, match="offsets 0 to 3 were deleted"):
        rows(reader, pieces)
    with pytest.raises(DataLost, match="offsets 0 to 3 were deleted"):
        reader.partitions(start, end)
    lenient = stream_reader(topics, subscribe=name, failOnDataLoss="false")
    assert values(rows(lenient, pieces)) == numbered(4, 10)
    assert values(rows(lenient, lenient.partitions(start, end))) == numbered(4, 10)


def test_a_batch_that_is_run_again_has_the_same_tasks(topics: Topics) -> None:
    """A sink identifies the written parts of a batch by the task's number."""
    name = topics.create(partitions=2)
    topics.send(name, numbered(0, 10))
    topics.send(name, numbered(10, 20), partition=1)
    reader = stream_reader(topics, subscribe=name, minPartitions="4", failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)

    def tasks() -> list[tuple[int, int, int]]:
        return [
            (partition.partition, partition.start, partition.end)
            for partition in reader.partitions(start, end)
            if isinstance(partition, Range)
        ]

    assert tasks() == [(0, 0, 5), (0, 5, 10), (1, 0, 5), (1, 5, 10)]
    topics.delete_records(name, before=7)
    assert tasks() == [(0, 5, 5), (0, 7, 10), (1, 0, 5), (1, 5, 10)]
    topics.delete_records(name, before=10)
    assert tasks() == [(0, 5, 5), (0, 10, 10), (1, 0, 5), (1, 5, 10)]
    assert values(rows(reader, reader.partitions(start, end))) == numbered(10, 20)


def test_where_a_new_partition_begins_is_part_of_its_batch(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, [b"first"])
    stream = Stream(topics, subscribe=name)
    assert stream.batch() == [b"first"]
    topics.grow(name, 2)
    topics.send(name, numbered(0, 10), partition=1)
    topics.delete_records(name, before=2, partition=1)
    end = stream.reader.latestOffset(stream.offset, ALL)
    assert end["@from"] == {name: {"1": 2}}
    topics.delete_records(name, before=10, partition=1)
    with pytest.raises(DataLost, match="offsets 2 to 9 were deleted"):
        stream.reader.partitions(stream.offset, end)
    assert "@from" not in stream.reader.latestOffset({**end, name: {"0": 0, "1": 10}}, ALL)


def test_a_log_that_ends_before_where_a_query_stands(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an unclean leader election; new records get offsets that the query has already read."""
    monkeypatch.setattr(planner, "_LOOK_SECONDS", 0.01)
    name = topics.create()
    topics.send(name, numbered(0, 10))
    stream = Stream(topics, subscribe=name, startingOffsets=json.dumps({name: {"0": 100}}))
    with pytest.raises(DataLost, match="the log ends at offset 10, and the query stands at 100"):
        stream.batch()
    stream.restart(onDataLoss="report")
    assert stream.batch() == []
    assert (stream.offset[name], stream.offset["@lost"]) == ({"0": 10}, {name: {"0": -1}})
    assert stream.batch() is None
    topics.send(name, [b"new"])
    assert stream.batch() == [b"new"]
    # Records hidden by an open transaction are not lost.
    ahead = Stream(topics, subscribe=name, **{"isolation.level": "read_uncommitted"})
    with topics.open_transaction(name, [b"inside"]):
        assert ahead.batch() == [*numbered(0, 10), b"new", b"inside"]
        ahead.restart(**{"isolation.level": "read_committed"})
        assert ahead.batch() is None


def test_a_log_that_is_cut_off_after_a_batch_was_planned(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_GONE_SECONDS", 0.1)
    monkeypatch.setattr(fetch, "_WAIT_MAX_MS", 10)
    name = topics.create()
    topics.send(name, numbered(0, 10))
    pieces = [Range(name, topics.id_of(name), 0, start, 20) for start in (5, 15)]
    strict = stream_reader(topics, subscribe=name, **IMPATIENT)
    for piece in pieces:
        with pytest.raises(DataLost, match="the log ends at offset 10, but was to be read to offset 20"):
            rows(strict, [piece])
    lenient = stream_reader(topics, subscribe=name, failOnDataLoss="false", **IMPATIENT)
    assert values(rows(lenient, pieces)) == numbered(5, 10)


def test_a_topic_that_is_deleted_after_a_batch_was_planned(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_GONE_SECONDS", 0.1)
    name = topics.create()
    topics.send(name, numbered(0, 10))
    strict = stream_reader(topics, subscribe=name, **IMPATIENT)
    start = strict.initialOffset()
    end = strict.latestOffset(start, ALL)
    planned = strict.partitions(start, end)
    topics.delete(name)
    with pytest.raises(DataLost, match="was deleted before it was read to offset 10"):
        rows(strict, planned)
    lenient = stream_reader(topics, subscribe=name, failOnDataLoss="false", **IMPATIENT)
    assert rows(lenient, planned) == []
    # The query is restarted, and runs the batch of its checkpoint again.
    assert rows(lenient, lenient.partitions(start, end)) == []


def test_a_topic_that_was_made_again(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 10))
    stream = Stream(topics, subscribe=name)
    assert stream.batch() == numbered(0, 10)
    topics.send(name, numbered(10, 12))
    reader = stream.reader
    planned = reader.partitions(stream.offset, reader.latestOffset(stream.offset, ALL))
    topics.delete(name)
    topics.create(name, partitions=2)
    # The new topic has more records than the old one, so offsets alone do not show the difference.
    topics.send(name, numbered(100, 120))
    with pytest.raises(DataLost, match="made again"):
        rows(reader, planned)
    with pytest.raises(DataLost, match="made again"):
        stream.batch()
    stream.restart(onDataLoss="earliest")
    assert rows(stream.reader, planned) == []
    assert stream.batch() == numbered(100, 120)
    assert stream.offset["@id"] == {name: topics.id_of(name)}
    assert stream.batch() is None
    topics.send(name, numbered(120, 125), partition=1)
    assert stream.batch() == numbered(120, 125)


def test_a_topic_that_is_gone(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 5))
    stream = Stream(topics, subscribe=name)
    assert stream.batch() == numbered(0, 5)
    topics.delete(name)
    with pytest.raises(DataLost, match="was deleted"):
        stream.batch()
    stream.restart(onDataLoss="earliest")
    # The topic may be created again.
    assert stream.batch() is None
    topics.create(name)
    assert stream.batch() is None
    topics.send(name, [b"new"])
    assert stream.batch() == [b"new"]


def test_a_checkpoint_of_sparks_own_connector_can_be_taken_over(topics: Topics) -> None:
    name = topics.create()
    topics.send(name, numbered(0, 10))
    reader = stream_reader(topics, subscribe=name)
    end = reader.latestOffset({name: {"0": 4}}, ALL)
    assert values(rows(reader, reader.partitions({name: {"0": 4}}, end))) == numbered(4, 10)
