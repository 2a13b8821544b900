"""The options of a source: what they mean, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.model.ids import TopicPartition
from ottla.spark.options import EARLIEST, LATEST, OptionError, Point, source_options

BASE = {"kafka.bootstrap.servers": "one:1,two:2", "subscribe": "a, b,a"}


def parsed(streaming: bool = True, **options: str) -> Any:
    return source_options({**BASE, **options}, streaming=streaming)


def test_names_are_those_of_sparks_connector_in_any_case() -> None:
    options = parsed(
        MAXOFFSETSPERTRIGGER="5",
        maxbytespertrigger="7",
        minPartitions="3",
        includeheaders="false",
        failOnDataLoss="false",
    )
    assert options.selection.topics == ("a", "b")
    assert [str(server) for server in options.client.bootstrap_servers] == ["one:1", "two:2"]
    assert (options.max_offsets_per_trigger, options.max_bytes_per_trigger, options.min_partitions) == (5, 7, 3)
    assert (options.include_headers, options.on_data_loss, options.read_committed) == (False, "earliest", True)
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning() -> None:
    assert parsed().starting == Point(everywhere=LATEST)
    assert parsed(streaming=False).starting == Point(everywhere=EARLIEST)
    assert parsed(streaming=False).ending == Point(everywhere=LATEST)


def test_one_time_goes_before_times_and_times_before_offsets() -> None:
    offsets, times = '{"a": {"0": 4, "1": -1}}', '{"a": {"0": 1000}}'
    assert parsed(startingOffsets=offsets).starting.offsets == {
        TopicPartition("a", 0): 4,
        TopicPartition("a", 1): LATEST,
    }
    assert parsed(startingOffsets=offsets, startingOffsetsByTimestamp=times).starting.times_ms == {
        TopicPartition("a", 0): 1000
    }
    assert parsed(startingOffsetsByTimestamp=times, startingTimestamp="5").starting == Point(time_ms=5)


def test_offsets_of_a_checkpoint_can_be_a_starting_point() -> None:
    text = '{"a": {"0": 4}, "@id": {"a": "xyz"}}'
    assert parsed(startingOffsets=text).starting.offsets == {TopicPartition("a", 0): 4}


def test_where_a_group_stands() -> None:
    options = parsed(startingOffsets="committed", **{"group.id": "g", "auto.offset.reset": "latest"})
    assert options.starting_committed
    assert options.starting == Point(everywhere=LATEST)
    with pytest.raises(OptionError, match=r"group\.id"):
        parsed(startingOffsets="committed")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": ""}, "exactly one"),
        ({"subscribePattern": ".*"}, "exactly one"),
        ({"subscribe": "", "subscribePattern": "("}, "not a regular expression"),
        ({"subscribe": "", "assign": '{"a": 1}'}, "looks like"),
        ({"subscribe": "", "assign": "["}, "not JSON"),
        ({"startingOffsets": "[]"}, "not a JSON object"),
        ({"startingOffsets": '{"a": {"x": 1}}'}, "looks like"),
        ({"startingOffsets": '{"a": 1}'}, "looks like"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "neither"),
        ({"endingOffsets": "latest"}, "has no end"),
        ({"kafka.auto.offset.reset": "earliest"}, "set the start with startingOffsets"),
        ({"kafka.fetch.max.bytes": "much"}, "positive"),
        ({"maxOffsetsPerTrigger": "0"}, "positive"),
        ({"maxOffsetsPerTrigger": "many"}, "positive"),
        ({"includeHeaders": "perhaps"}, "neither true nor false"),
        ({"isolation.level": "some"}, "read_uncommitted"),
        ({"onDataLoss": "cry"}, "none of"),
        ({"decoder": "magic"}, "neither"),
        ({"subscrbe": "a"}, "Option 'subscrbe' is unknown"),
        ({"kafka.bootstrap.servers": ""}, "is missing"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parsed(**options)


def test_batches_need_an_end_that_lies_behind_their_beginning() -> None:
    with pytest.raises(OptionError, match="nothing"):
        parsed(streaming=False, startingOffsets="latest")
    with pytest.raises(OptionError, match="nothing"):
        parsed(streaming=False, endingOffsets="earliest")
    with pytest.raises(OptionError, match="startingOffsets has -1, which leaves nothing"):
        parsed(streaming=False, startingOffsets='{"a": {"0": 4, "1": -1}}')
    with pytest.raises(OptionError, match="endingOffsets has -2, which leaves nothing"):
        parsed(streaming=False, endingOffsets='{"a": {"0": -2}}')


def test_a_fetch_is_as_large_as_both_limits_allow() -> None:
    default = parsed().fetch_bytes
    assert parsed(**{"kafka.fetch.max.bytes": "70000"}).fetch_bytes == 70_000
    assert parsed(**{"fetch.max.bytes": "70000", "max.partition.fetch.bytes": "80000"}).fetch_bytes == 70_000
    assert parsed(**{"max.partition.fetch.bytes": str(2 * default)}).fetch_bytes == 2 * default


def test_security_that_is_not_there_is_not_pretended() -> None:
    with pytest.raises(ClientError, match=r"security\.protocol"):
        parsed(**{"kafka.security.protocol": "TLS"})


def test_the_security_of_the_client() -> None:
    security_options = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/a",
    }
    client = parsed(**security_options).client
    assert client.tls is not None
    # Settings travel to executors.
    assert pickle.loads(pickle.dumps(client)) == client
    login = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    jaas = {"kafka.sasl.jaas.config": 'x.PlainLoginModule required username="alice" password="secret";'}
    assert parsed(**login, **jaas).client.login is not None
