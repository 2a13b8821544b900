"""Our client knows what Java's clients know: every configuration key, and the partition of every key."""

from __future__ import annotations

import random

import pytest

from ottla.client.config import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from ottla.client.producer import error_class
from ottla.client.producer.partitioner import partition_of_key
from ottla.model.errors import ErrorCode, KafkaError
from tests.support.java import ToolServer

OURS = {"producer": PRODUCER_KEYS, "consumer": CONSUMER_KEYS, "admin": ADMIN_KEYS}


@pytest.fixture(scope="module")
def javas_keys(java: ToolServer) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {kind: set() for kind in OURS}
    for line in java.run_class("ClientFacts", "keys").stdout.splitlines():
        kind, name = line.split()
        found[kind].add(name)
    return found


# For people who come from there.
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


@pytest.mark.parametrize("partitions", [3, 17, 100])
def test_ten_thousand_keys_have_javas_partitions(java: ToolServer, partitions: int) -> None:
    generator = random.Random(partitions)
    keys = [generator.randbytes(generator.randrange(1, 60)) for _ in range(10_000)]
    given = "".join(f"{key.hex()}\n" for key in keys)
    said = java.run_class("ClientFacts", "partitions", partitions, stdin=given).stdout.split()
    assert [int(word) for word in said] == [partition_of_key(key, partitions) for key in keys]


def test_errors_have_javas_classes(java: ToolServer) -> None:
    said = dict(line.split() for line in java.run_class("ClientFacts", "errors").stdout.splitlines())
    ours = {
        str(int(code)): error_class(KafkaError(code)).value
        for code in ErrorCode
        if code != ErrorCode.NONE and str(int(code)) in said
    }
    assert len(ours) > 120
    assert {code: (name, said[code]) for code, name in ours.items() if said[code] != name} == {}
