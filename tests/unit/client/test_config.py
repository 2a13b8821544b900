"""Configuration with Kafka's names: supported keys, refused keys, and error messages."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.config import (
    ADMIN_KEYS,
    CONSUMER_KEYS,
    PRODUCER_KEYS,
    ConfigurationError,
    read_admin,
    read_consumer,
    read_producer,
)
from ottla.client.consumer.durations import parse_duration_ms
from ottla.client.errors import ClientError
from ottla.client.producer import (
    OutgoingRecord,
    ProducerInterceptor,
    ProducerSettings,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from ottla.records.compression import Codec

WHERE = {"bootstrap.servers": "a:1,b:2"}


class Stamp(ProducerInterceptor):
    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return record


def test_a_producer_from_text_and_from_python_values() -> None:
    texts = {"acks": "all", "linger.ms": "7", "compression.type": "zstd", "compression.zstd.level": "9"}
    values = {"acks": -1, "linger.ms": 7, "compression.type": Codec.ZSTD, "compression.zstd.level": 9}
    for config in (texts, values):
        client, producer = read_producer({**WHERE, **config})
        assert [str(server) for server in client.bootstrap_servers] == ["a:1", "b:2"]
        assert (producer.acks, producer.linger_ms) == (-1, 7)
        assert (producer.compression, producer.compression_level) == (Codec.ZSTD, 9)


def test_the_level_of_another_codec_does_not_count() -> None:
    _, producer = read_producer({**WHERE, "compression.type": "gzip", "compression.zstd.level": 22})
    assert producer.compression_level is None


def test_time_outs_and_connections_reach_the_connections() -> None:
    client, producer = read_producer(
        {
            "bootstrap.servers": ["a:1"],
            "max.block.ms": 5_000,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 2,
            "socket.connection.setup.timeout.ms": 3,
            "socket.connection.setup.timeout.max.ms": 4,
            "connections.max.idle.ms": 5,
            "send.buffer.bytes": 6,
            "receive.buffer.bytes": 7,
            "metrics.sample.window.ms": 8,
            "metadata.recovery.strategy": "NONE",
        }
    )
    assert (client.api_timeout_ms, producer.max_block_ms) == (5_000, 5_000)
    assert (client.reconnect_backoff_ms, client.reconnect_backoff_max_ms) == (1, 2)
    assert (client.connect_timeout_ms, client.connect_timeout_max_ms) == (3, 4)
    assert (client.idle_connection_ms_max, client.send_buffer_bytes, client.receive_buffer_bytes) == (5, 6, 7)
    assert (client.metrics_window_ms, client.metadata_recovery) == (8, "none")


def test_plug_ins_by_name_by_class_and_as_objects() -> None:
    name = f"{Stamp.__module__}:Stamp"
    for interceptors in (name, [name], Stamp, [Stamp()]):
        _, producer = read_producer({**WHERE, "interceptor.classes": interceptors})
        assert [type(interceptor).__name__ for interceptor in producer.interceptors] == ["Stamp"]
    kinds: dict[Any, type] = {
        "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobinPartitioner,
        RoundRobinPartitioner: RoundRobinPartitioner,
        "ottla.client.producer.partitioner.RoundRobinPartitioner": RoundRobinPartitioner,
        StickyPartitioner(): StickyPartitioner,
    }
    for partitioner, kind in kinds.items():
        _, producer = read_producer({**WHERE, "partitioner.class": partitioner})
        assert isinstance(producer.partitioner, kind)
    _, producer = read_producer(
        {
            **WHERE,
            "partitioner.ignore.keys": "true",
            "partitioner.adaptive.partitioning.enable": False,
            "partitioner.availability.timeout.ms": 9,
        }
    )
    sticky = producer.partitioner
    assert isinstance(sticky, StickyPartitioner)
    assert (sticky.ignores_keys, sticky.adaptive, sticky.availability_timeout_ms) == (True, False, 9)


def test_a_consumer_from_text() -> None:
    client, consumer = read_consumer(
        {
            **WHERE,
            "group.id": "g",
            "isolation.level": "read_committed",
            "enable.auto.commit": "false",
            "default.api.timeout.ms": "9",
            "auto.offset.reset": "by_duration:PT1H",
        }
    )
    assert (client.api_timeout_ms, consumer.group_protocol, consumer.reset_age_ms) == (9, "consumer", 3_600_000)
    assert (consumer.read_committed, consumer.auto_commit) == (True, False)


def test_settings_of_classic_groups_choose_the_classic_protocol() -> None:
    strategy = {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor,roundrobin"}
    _, consumer = read_consumer({**WHERE, **strategy})
    assert (consumer.group_protocol, consumer.assignors) == ("classic", ("sticky", "roundrobin"))
    with pytest.raises(ConfigurationError, match=r"group\.protocol=classic"):
        read_consumer({**WHERE, **strategy, "group.protocol": "CONSUMER"})


def test_an_admin_client_of_brokers_or_controllers() -> None:
    assert not read_admin({**WHERE, "retries": 3}).are_controllers
    settings = read_admin({"bootstrap.controllers": "c:3", "default.api.timeout.ms": 8})
    assert (settings.are_controllers, str(settings.bootstrap_servers[0]), settings.api_timeout_ms) == (True, "c:3", 8)
    with pytest.raises(ConfigurationError, match="exclude each other"):
        read_admin({**WHERE, "bootstrap.controllers": "c:3"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"linger.msec": 1}, "'linger.msec' is not a configuration of a producer. Did you mean linger.ms?"),
        ({"batch_size": 1}, "Did you mean batch.size"),
        ({"queue.buffering.max.ms": 1}, "Did you mean linger.ms"),
        ({"group.id": "g"}, "'group.id' is not a configuration of a producer"),
        ({"linger.ms": "soon"}, "linger.ms='soon' is not a whole number"),
        ({"linger.ms": -1}, "linger.ms=-1 must be at least 0"),
        ({"compression.gzip.level": 10}, "must be at most 9"),
        ({"acks": "2"}, "must be all, 1 or 0"),
        ({"compression.type": "rar"}, "there are none, gzip, snappy, lz4, zstd"),
        ({"enable.idempotence": "perhaps"}, "must be true or false"),
        ({"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}, "is not supported: every address"),
        ({"metric.reporters": "com.example.Reporter"}, "call metrics"),
        ({"security.providers": "x"}, "Java runtime"),
        ({"interceptor.classes": "com.example.Interceptor"}, "there is no Python class 'com.example.Interceptor'"),
        ({"partitioner.class": 7}, "is not a partitioner"),
        ({"transaction.two.phase.commit.enable": True}, "needs a transactional.id"),
        (
            {"transaction.two.phase.commit.enable": True, "transactional.id": "t", "transaction.timeout.ms": 5},
            "transaction.timeout.ms has no meaning",
        ),
        ({"delivery.timeout.ms": 1_000}, "Delivery.timeout.ms=1000 must be at least linger.ms \\+ request.timeout.ms"),
        ({"transactional.id": "x", "acks": 1}, "A transactional producer needs acks=all"),
        ({"bootstrap.servers": "a:b"}, "check bootstrap.servers"),
    ],
)
def test_what_a_producer_refuses(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        read_producer({**WHERE, **given})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"auto.offset.rest": "latest"}, "Did you mean auto.offset.reset"),
        ({"auto.offset.reset": "middle"}, "must be earliest, latest, none"),
        ({"auto.offset.reset": "by_duration:tomorrow"}, "is not a duration"),
        ({"isolation.level": "some"}, "must be one of read_committed, read_uncommitted"),
        ({"max.poll.records": 0}, "must be at least 1"),
        ({"partition.assignment.strategy": ""}, "there is no Python class|is empty"),
        ({"session.timeout.ms": 1_000}, "must be less than session.timeout.ms=1000"),
        ({"share.acknowledgement.mode": "explicit"}, "share consumers"),
    ],
)
def test_what_a_consumer_refuses(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        read_consumer({**WHERE, **given})


def test_addresses_are_needed() -> None:
    for read in (read_producer, read_consumer, read_admin):
        with pytest.raises(ClientError, match=r"bootstrap.servers is missing"):
            read({})


def test_a_default_delivery_time_out_grows_with_the_others_and_a_given_one_does_not() -> None:
    _, producer = read_producer({**WHERE, "request.timeout.ms": 200_000})
    assert producer.delivery_timeout_ms == 200_005
    with pytest.raises(ValueError, match=r"which is 30005"):
        ProducerSettings(delivery_timeout_ms=30_000)


def test_the_value_that_is_kafkas_default_is_never_refused() -> None:
    read_producer(
        {
            **WHERE,
            "client.dns.lookup": "use_all_dns_ips",
            "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
            "metrics.num.samples": 2,
            "metrics.recording.level": "INFO",
            "config.providers": "",
            "security.providers": None,
            "transaction.two.phase.commit.enable": False,
            "interceptor.classes": "",
        }
    )


def test_every_client_has_the_shared_keys() -> None:
    shared = set(PRODUCER_KEYS) & set(CONSUMER_KEYS) & set(ADMIN_KEYS)
    assert {"bootstrap.servers", "client.id", "security.protocol", "ssl.truststore.location"} <= shared


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("P1D", 86_400_000), ("PT0.5S", 500), ("P2DT3H4M5S", 183_845_000), ("pt1m", 60_000)],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1DT", "-P1D", "P1H"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)
