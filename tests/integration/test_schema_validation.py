"""Topics that check schemas: the refused batches of confluent-kafka's producers, and their errors."""

from __future__ import annotations

import asyncio
import struct
import time
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.serialization import MessageField, SerializationContext

import ottla.testing
from ottla.client.cluster import Cluster
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.host.free_ports import free_ports
from ottla.model.errors import ErrorCode
from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.registries import RegistryProcess, registry_process

PERSON = '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"name","type":"string"}]}'


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[ottla.testing.Cluster, RegistryProcess]]:
    (port,) = free_ports(1)
    settings = {"confluent.schema.registry.url": f"http://127.0.0.1:{port}"}
    with (
        ottla.testing.cluster(settings=settings) as cluster,
        registry_process(cluster.bootstrap, "--port", str(port)) as registry,
    ):
        yield cluster, registry


@pytest.fixture
def bootstrap(place: tuple[ottla.testing.Cluster, RegistryProcess]) -> str:
    return place[0].bootstrap


@pytest.fixture
def registry(place: tuple[ottla.testing.Cluster, RegistryProcess]) -> RegistryProcess:
    return place[1]


def create(bootstrap: str, **configs: str) -> str:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    # Keyword arguments have underscores for the dots of names like confluent.key.subject.name.strategy.
    topic_configs = {name.replace("_", "."): value for name, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=topic_configs)])[topic].result(60)
    return topic


def send(bootstrap: str, topic: str, *values: bytes | None, **settings: Any) -> list[str]:
    """Sends the values and returns their errors in order; an empty text for a written value."""
    outcomes: list[str] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, **settings})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error.name() if error else ""))
    producer.flush(60)
    return outcomes


def tagged(number: int, payload: bytes = b"\x06Ada") -> bytes:
    return struct.pack(">bI", 0, number) + payload


def produce_raw(bootstrap: str, topic: str, batch: bytearray) -> Any:
    """The broker's answer to a single batch."""

    async def ask() -> Any:
        cluster = Cluster(ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap)))
        try:
            image = await cluster.fresh_topic(topic, create=False)
            partition = PartitionProduceData(index=0, records=memoryview(batch))
            data = TopicProduceData(name=topic, topic_id=image.topic_id, partition_data=[partition])
            return await cluster.ask_any(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]))
        finally:
            await cluster.close()

    return asyncio.run(ask()).responses[0].partition_responses[0]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_only_registered_schemas_of_the_topic_are_accepted(
    bootstrap: str, registry: RegistryProcess, compression: str
) -> None:
    topic = create(bootstrap, confluent_value_schema_validation="true")
    other = registry.register("elsewhere-value", '"long"')
    settings = {"compression.type": compression}
    assert send(bootstrap, topic, tagged(other), **settings) == ["INVALID_RECORD"]
    assert send(bootstrap, topic, tagged(99_999), **settings) == ["INVALID_RECORD"]
    assert send(bootstrap, topic, b"no schema", **settings) == ["INVALID_RECORD"]
    with SchemaRegistryClient({"url": registry.url}) as client:
        context = SerializationContext(topic, MessageField.VALUE)
        serializer = their_avro.AvroSerializer(client, PERSON)
        good = serializer({"name": "Ada"}, context)
        assert good is not None
        # A tombstone names no schema.
        assert send(bootstrap, topic, good, None, **settings) == ["", ""]
        # The schema of the other subject becomes one of this topic.
        client.set_compatibility(subject_name=f"{topic}-value", level="NONE")
        client.register_schema(f"{topic}-value", Schema('"long"', "AVRO"))
    # The broker remembers its refusal for a second.
    deadline = time.monotonic() + 60
    while send(bootstrap, topic, tagged(other), **settings) != [""]:
        assert time.monotonic() < deadline


def test_the_guid_in_a_header(bootstrap: str, registry: RegistryProcess) -> None:
    topic = create(bootstrap, confluent_value_schema_validation="true")
    headers: list[Any] = []
    with SchemaRegistryClient({"url": registry.url}) as client:
        context = SerializationContext(topic, MessageField.VALUE, headers)
        conf = {"schema.id.serializer": header_schema_id_serializer}
        data = their_avro.AvroSerializer(client, PERSON, conf=conf)({"name": "Ada"}, context)
    outcomes: list[str] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    other_headers: list[Any] = [headers, [("__value_schema_id", b"\1" + uuid.uuid4().bytes)], []]
    for invalid_headers in other_headers:
        producer.produce(
            topic,
            data,
            headers=invalid_headers,
            on_delivery=lambda error, _: outcomes.append(error.name() if error else ""),
        )
        producer.flush(60)
    assert outcomes == ["", "INVALID_RECORD", "INVALID_RECORD"]


def test_the_answer_names_the_records(bootstrap: str, registry: RegistryProcess) -> None:
    topic = create(
        bootstrap,
        confluent_value_schema_validation="true",
        confluent_key_schema_validation="true",
        confluent_key_subject_name_strategy="TopicNameStrategy",
    )
    number = registry.register(f"{topic}-value", PERSON)
    key = registry.register(f"{topic}-key", '"int"')
    records = [
        Record(key=tagged(key), value=tagged(number)),
        Record(key=tagged(key), value=tagged(88_888)),
        Record(key=None, value=b"bare"),
        Record(key=tagged(number), value=tagged(number)),
    ]
    answer = produce_raw(bootstrap, topic, build_batch(records, codec=Codec.NONE))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors] == [
        (1, "The schema 88888 of the value is not in the registry."),
        (2, "The value names no schema."),
        (3, f"The schema {number} of the key is not registered for the topic."),
    ]


def test_transactions_and_idempotence_stay_right(bootstrap: str, registry: RegistryProcess) -> None:
    """A refused batch aborts its transaction, and a later transaction commits; no refused or aborted record is seen."""
    topic = create(bootstrap, confluent_value_schema_validation="true")
    number = registry.register(f"{topic}-value", PERSON)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": f"x-{topic}"}
    for values, is_good in (([tagged(number)], True), ([tagged(77_777)], False), ([tagged(number, b"\x06Bob")], True)):
        producer = confluent_kafka.Producer(settings)
        producer.init_transactions(60)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        if is_good:
            producer.commit_transaction(60)
            continue
        with pytest.raises(confluent_kafka.KafkaException):
            producer.commit_transaction(60)
        producer.abort_transaction(60)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    committed: list[bytes | None] = []
    while len(committed) < 2:
        message = consumer.poll(60)
        assert message is not None
        committed.append(message.value())
    consumer.close()
    assert committed == [tagged(number), tagged(number, b"\x06Bob")]
    # Many batches are in flight, and the first needs a request to the registry: their order is kept.
    values = [tagged(number, bytes([index % 250])) for index in range(500)]
    many = create(bootstrap, confluent_value_schema_validation="true")
    with SchemaRegistryClient({"url": registry.url}) as client:
        client.register_schema(f"{many}-value", Schema(PERSON, "AVRO"))
    idempotent = {"enable.idempotence": True, "batch.num.messages": 10}
    assert send(bootstrap, many, *values, **idempotent) == [""] * 500
    assert read_all(bootstrap, many, 500) == values


def test_a_repeated_batch_gets_the_first_answer(bootstrap: str, registry: RegistryProcess) -> None:
    """The batch would be refused now, but it is in the log already."""
    topic = create(bootstrap, confluent_value_schema_validation="true")
    number = registry.register(f"{topic}-value", PERSON)

    def batch(sequence: int) -> bytearray:
        records = [Record(key=b"bare", value=tagged(number))]
        return build_batch(records, producer_id=4_000_000, producer_epoch=0, base_sequence=sequence)

    first = produce_raw(bootstrap, topic, batch(0))
    assert (first.error_code, first.base_offset) == (0, 0)
    # A deleted schema would have the same effect, minutes later.
    alter(bootstrap, topic, "confluent.key.schema.validation", "true")
    again = produce_raw(bootstrap, topic, batch(0))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert produce_raw(bootstrap, topic, batch(1)).error_code == ErrorCode.INVALID_RECORD


def alter(bootstrap: str, topic: str, name: str, value: str) -> None:
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(60)


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while len(values) < count:
        values += [message.value() or b"" for message in consumer.consume(count - len(values), 60)]
    consumer.close()
    return values


def test_strategies_and_switching_it_off(bootstrap: str, registry: RegistryProcess) -> None:
    topic = create(
        bootstrap,
        confluent_value_schema_validation="true",
        confluent_value_subject_name_strategy="io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
    )
    number = registry.register(f"{topic}-x.Person", PERSON)
    assert send(bootstrap, topic, tagged(number)) == [""]
    assert send(bootstrap, topic, b"no schema") == ["INVALID_RECORD"]
    alter(bootstrap, topic, "confluent.value.schema.validation", "false")
    assert send(bootstrap, topic, b"no schema") == [""]
    with pytest.raises(confluent_kafka.KafkaException, match="must be one of"):
        create(bootstrap, confluent_value_subject_name_strategy="Other")


def test_without_a_registry_producers_get_an_error() -> None:
    (port,) = free_ports(1)
    settings = {"confluent.schema.registry.url": f"http://127.0.0.1:{port}"}
    with ottla.testing.cluster(settings=settings) as cluster:
        topic = create(cluster.bootstrap, confluent_value_schema_validation="true")
        # Producers retry this error until their delivery timeout.
        assert send(cluster.bootstrap, topic, tagged(1), **{"message.timeout.ms": 3_000}) == ["_MSG_TIMED_OUT"]
    with ottla.testing.cluster() as cluster:
        topic = create(cluster.bootstrap, confluent_value_schema_validation="true")
        assert send(cluster.bootstrap, topic, tagged(1)) == ["INVALID_CONFIG"]
