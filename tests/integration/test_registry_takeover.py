"""A registry takes over the topics of Confluent's registry, and writes records that Confluent's can take over.

There is no jar of Confluent's registry to run, so the bytes are those that its classes define (their names and their
order of fields) and that its documentation and other registries' tests show.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import ottla.testing
from tests.support.registries import RegistryProcess, registry_process

CAR = '{"type":"record","name":"Car","namespace":"x","fields":[{"name":"model","type":"string"}]}'
# Keys and values as Confluent's registries write them; those before 8.0 write no schemaType for Avro.
SCHEMAS: list[tuple[str, str | None]] = [
    ('{"keytype":"NOOP","magic":0}', None),
    (
        '{"keytype":"SCHEMA","subject":"car-value","version":1,"magic":1}',
        f'{{"subject":"car-value","version":1,"id":25,"schema":{json.dumps(CAR)},"deleted":false}}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"text-value","version":1,"magic":1}',
        '{"subject":"text-value","version":1,"id":26,"schemaType":"JSON","schema":"{\\"type\\":\\"string\\"}",'
        '"deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"gone-value","version":1,"magic":1}',
        '{"subject":"gone-value","version":1,"id":27,"schemaType":"AVRO","schema":"\\"int\\"","deleted":false}',
    ),
    (
        '{"keytype":"DELETE_SUBJECT","subject":"gone-value","magic":0}',
        '{"subject":"gone-value","version":1}',
    ),
    ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL"}'),
    (
        '{"keytype":"CONFIG","subject":"car-value","magic":0}',
        '{"subject":"car-value","compatibilityLevel":"NONE"}',
    ),
    ('{"keytype":"MODE","subject":"text-value","magic":0}', '{"subject":"text-value","mode":"READONLY"}'),
    (
        '{"keytype":"SCHEMA","subject":":.lab:car-value","version":1,"magic":1}',
        f'{{"subject":":.lab:car-value","version":1,"id":1,"schemaType":"AVRO","schema":{json.dumps(CAR)},'
        '"deleted":false}',
    ),
]
KEYS: list[tuple[str, str | None]] = [
    (
        '{"tenant":"default","name":"orders","type":"KEK"}',
        '{"name":"orders","kmsType":"aws-kms","kmsKeyId":"arn:1","kmsProps":{},"shared":false,"deleted":false,'
        '"type":"KEK"}',
    ),
    (
        '{"tenant":"default","kekName":"orders","subject":"car-value","algorithm":"AES256_GCM","version":1,'
        '"type":"DEK"}',
        '{"kekName":"orders","subject":"car-value","algorithm":"AES256_GCM","version":1,'
        '"encryptedKeyMaterial":"bWF0ZXJpYWw=","deleted":false,"type":"DEK"}',
    ),
]


def fill(bootstrap: str, topic: str, records: list[tuple[str, str | None]]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})])[topic].result(60)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        producer.produce(topic, None if value is None else value.encode(), key.encode())
    assert producer.flush(60) == 0


def records_of(bootstrap: str, topic: str) -> list[tuple[str, Any]]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    records: list[tuple[str, Any]] = []
    while True:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            break
        value = message.value()
        records.append(((message.key() or b"").decode(), None if value is None else value.decode()))
    consumer.close()
    return records


def asked(registry: RegistryProcess, method: str, path: str, body: Any = None) -> Any:
    status, answer = registry.ask(method, path, body)
    assert status in (200, 204), answer
    return answer


def test_a_registry_of_confluent_is_taken_over_and_given_back(shared_cluster: ottla.testing.Cluster) -> None:
    bootstrap, topic = shared_cluster.bootstrap, f"_schemas-{uuid.uuid4().hex[:8]}"
    fill(bootstrap, topic, SCHEMAS)
    with registry_process(bootstrap, "--topic", topic, "--group", topic) as registry:
        assert registry.get("/subjects") == [":.lab:car-value", "car-value", "text-value"]
        assert registry.get("/subjects?deleted=true")[2:] == ["gone-value", "text-value"]
        assert registry.get("/schemas/ids/25")["schema"] == CAR
        assert registry.get("/schemas/ids/1?subject=:.lab:")["schema"] == CAR
        assert registry.get("/config") == {"compatibilityLevel": "FULL"}
        assert registry.get("/config/car-value") == {"compatibilityLevel": "NONE"}
        assert registry.code("POST", "/subjects/text-value/versions", {"schema": '"int"'}) == (422, 42205)
        # The same schema keeps its id and version, a new one gets the next id.
        assert registry.register("car-value", CAR) == 25
        assert registry.register("new-value", '"long"') == 28
        asked(registry, "PUT", "/config/new-value", {"compatibility": "BACKWARD"})
        asked(registry, "PUT", "/mode/new-value", {"mode": "READWRITE"})
        asked(registry, "DELETE", "/subjects/new-value")
        asked(registry, "DELETE", "/subjects/new-value?permanent=true")
        other = {"schema": '{"type":"boolean"}', "schemaType": "JSON", "metadata": {"properties": {"a": "b"}}}
        asked(registry, "POST", "/subjects/other/versions", other)
        asked(registry, "DELETE", "/subjects/other/versions/1")
    written = [record for record in records_of(bootstrap, topic)[len(SCHEMAS) :] if '"CONTEXT"' not in record[0]]
    schema = '{"keytype":"SCHEMA","subject":"new-value","version":1,"magic":1}'
    removed = '{"keytype":"SCHEMA","subject":"other","version":1,"magic":1}'
    value = (
        '{"subject":"other","version":1,"id":29,"schemaType":"JSON","metadata":{"properties":{"a":"b"}},'
        '"schema":"{\\"type\\":\\"boolean\\"}","deleted":false}'
    )
    assert [record for record in written if '"NOOP"' not in record[0]] == [
        (
            schema,
            '{"subject":"new-value","version":1,"id":28,"schemaType":"AVRO","schema":"\\"long\\"","deleted":false}',
        ),
        (
            '{"keytype":"CONFIG","subject":"new-value","magic":0}',
            '{"subject":"new-value","compatibilityLevel":"BACKWARD"}',
        ),
        ('{"keytype":"MODE","subject":"new-value","magic":0}', '{"subject":"new-value","mode":"READWRITE"}'),
        ('{"keytype":"DELETE_SUBJECT","subject":"new-value","magic":0}', '{"subject":"new-value","version":1}'),
        (schema, None),
        ('{"keytype":"MODE","subject":"new-value","magic":0}', None),
        ('{"keytype":"CONFIG","subject":"new-value","magic":0}', None),
        (removed, value),
        (removed, value.replace('"deleted":false', '"deleted":true')),
    ]


def test_keys_of_encrypted_fields_are_taken_over() -> None:
    """The topic of the keys has a fixed name, so this test has its own cluster."""
    with ottla.testing.cluster() as cluster:
        fill(cluster.bootstrap, "_dek_registry_keys", KEYS)
        with registry_process(cluster.bootstrap) as registry:
            keks = "/dek-registry/v1/keks"
            assert registry.get(keks) == ["orders"]
            dek = registry.get(f"{keks}/orders/deks/car-value")
            assert (dek["encryptedKeyMaterial"], dek["version"]) == ("bWF0ZXJpYWw=", 1)
            asked(registry, "POST", keks, {"name": "mine", "kmsType": "local-kms", "kmsKeyId": "x"})
            body = {"subject": "s", "version": 1, "algorithm": "AES256_SIV", "encryptedKeyMaterial": "eA=="}
            asked(registry, "POST", f"{keks}/mine/deks", body)
            asked(registry, "DELETE", f"{keks}/mine/deks/s")
            asked(registry, "DELETE", f"{keks}/mine/deks/s?permanent=true")
            assert registry.code("GET", f"{keks}/mine/deks/s?deleted=true&algorithm=AES256_SIV") == (404, 40470)
        key = '{"tenant":"default","kekName":"mine","subject":"s","algorithm":"AES256_SIV","version":1,"type":"DEK"}'
        value = (
            '{"kekName":"mine","subject":"s","algorithm":"AES256_SIV","version":1,"encryptedKeyMaterial":"eA==",'
            '"deleted":false,"type":"DEK"}'
        )
        assert records_of(cluster.bootstrap, "_dek_registry_keys")[len(KEYS) :][:4] == [
            (
                '{"tenant":"default","name":"mine","type":"KEK"}',
                '{"name":"mine","kmsType":"local-kms","kmsKeyId":"x","kmsProps":{},"shared":false,"deleted":false,'
                '"type":"KEK"}',
            ),
            (key, value),
            (key, value.replace('"deleted":false', '"deleted":true')),
            (key, None),
        ]


@pytest.mark.parametrize(
    ("partitions", "policy", "reason"),
    [(3, "compact", "has 3 partitions and must have one"), (1, "compact,delete", "cleanup.policy=compact,delete")],
)
def test_a_topic_that_would_lose_schemas_is_refused(
    shared_cluster: ottla.testing.Cluster, partitions: int, policy: str, reason: str
) -> None:
    topic = f"unsuitable-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": shared_cluster.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config={"cleanup.policy": policy})])[topic].result(30)
    with pytest.raises(AssertionError, match=reason):
        RegistryProcess(shared_cluster.bootstrap, "--topic", topic, "--group", topic)
