"""Our client knows what Java's clients know: every configuration key, and the partition of every key."""

from __future__ import annotations

import random

import pytest

from ottla.client.config import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from ottla.client.consumer import ConsumerSettings
from ottla.client.producer import ProducerSettings, error_class
from ottla.client.producer.partitioner import partition_of_key
from ottla.model.errors import ErrorCode, KafkaError
from tests.support.java import ToolServer

OURS = {"producer": PRODUCER_KEYS, "consumer": CONSUMER_KEYS, "admin": ADMIN_KEYS}


@pytest.fixture(scope="module")
def javas_keys(java: ToolServer) -> dict[str, set[str]]:
    keys: dict[str, set[str]] = {kind: set() for kind in OURS}
    for line in java.run_class("ClientFacts", "keys").stdout.splitlines():
        kind, name = line.split()
        keys[kind].add(name)
    return keys


# Accepted for users of librdkafka.
NAMES_OF_LIBRDKAFKA = {"sasl.username", "sasl.password", "sasl.mechanisms"}
# Java has these in the JAAS configuration or in files of the system.
OWN_NAMES = {
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
}


@pytest.mark.parametrize("kind", OURS)
def test_every_configuration_key_is_known(javas_keys: dict[str, set[str]], kind: str) -> None:
    assert len(javas_keys[kind]) > 60
    assert javas_keys[kind] - set(OURS[kind]) == set()
    assert set(OURS[kind]) - javas_keys[kind] <= NAMES_OF_LIBRDKAFKA | OWN_NAMES


PRODUCER_DEFAULTS = {
    "acks": "acks",
    "batch.size": "batch_size",
    "buffer.memory": "buffer_bytes",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "enable.idempotence": "uses_sequences",
    "linger.ms": "linger_ms",
    "max.block.ms": "max_block_ms",
    "max.in.flight.requests.per.connection": "in_flight_max",
    "max.request.size": "request_bytes_max",
    "request.timeout.ms": "request_timeout_ms",
    "retries": "retries",
    "transaction.timeout.ms": "transaction_timeout_ms",
}
CONSUMER_DEFAULTS = {
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "auto.offset.reset": "auto_offset_reset",
    "check.crcs": "check_crcs",
    "enable.auto.commit": "auto_commit",
    "fetch.max.bytes": "fetch_max_bytes",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
    "fetch.min.bytes": "fetch_min_bytes",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.partition.fetch.bytes": "partition_fetch_bytes",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "max.poll.records": "max_poll_records",
    "session.timeout.ms": "session_timeout_ms",
}


def test_defaults_are_javas(java: ToolServer) -> None:
    defaults = dict(
        line.rsplit(" ", 1) for line in java.run_class("ClientFacts", "defaults").stdout.splitlines() if line[-1] != " "
    )
    producer, consumer = ProducerSettings(), ConsumerSettings()
    ours = {f"producer {key}": getattr(producer, name) for key, name in PRODUCER_DEFAULTS.items()}
    ours |= {f"consumer {key}": getattr(consumer, name) for key, name in CONSUMER_DEFAULTS.items()}
    # -1 stands for all.
    defaults["producer acks"] = defaults["producer acks"].replace("all", "-1")
    assert {key: str(value).lower() for key, value in ours.items()} == {key: defaults[key] for key in ours}


@pytest.mark.parametrize("partitions", [3, 17, 100])
def test_ten_thousand_keys_have_javas_partitions(java: ToolServer, partitions: int) -> None:
    generator = random.Random(partitions)
    keys = [generator.randbytes(generator.randrange(60)) for _ in range(9_950)]
    keys += [generator.randbytes(generator.randrange(60, 5_000)) for _ in range(50)]
    assert b"" in keys
    lines = "".join(f"{key.hex()}\n" for key in keys)
    partition_numbers = java.run_class("ClientFacts", "partitions", partitions, stdin=lines).stdout.split()
    assert [int(word) for word in partition_numbers] == [partition_of_key(key, partitions) for key in keys]


def test_errors_have_javas_classes(java: ToolServer) -> None:
    class_names = dict(line.split() for line in java.run_class("ClientFacts", "errors").stdout.splitlines())
    ours = {
        str(int(code)): error_class(KafkaError(code)).value
        for code in ErrorCode
        if code != ErrorCode.NONE and str(int(code)) in class_names
    }
    assert len(ours) > 120
    assert {code: (name, class_names[code]) for code, name in ours.items() if class_names[code] != name} == {}
