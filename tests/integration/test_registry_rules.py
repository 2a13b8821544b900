"""Rules of data contracts in our serializers, compared with confluent-kafka's."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.serialization import MessageField, SerializationContext
from confluent_kafka.serialization import SerializationError as TheirError

import ottla.testing
from ottla.serdes import SerializationError
from ottla.serdes.avro import AvroDeserializer, AvroSerializer
from ottla.serdes.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from ottla.serdes.registry_client import RegistryClient
from ottla.serdes.rules import DeadLetter
from tests.support.contracts import (
    ADA,
    AVRO,
    LATEST,
    SECRET,
    condition,
    context,
    encrypting,
    register_their_rules,
    registered,
    their_registry,
)
from tests.support.registries import RegistryProcess, registry_process


@pytest.fixture(scope="module", autouse=True)
def their_global_rules() -> None:
    register_their_rules()


@pytest.fixture(scope="module")
def registry(shared_cluster: ottla.testing.Cluster) -> Iterator[RegistryProcess]:
    with registry_process(shared_cluster.bootstrap) as process:
        yield process


@pytest.fixture
def client(registry: RegistryProcess) -> Iterator[RegistryClient]:
    client = RegistryClient(registry.url)
    yield client
    client.close()


@pytest.fixture
def theirs(registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize(
    ("expr", "holds"),
    [
        ("message.age > 18", True),
        ("message.age > 40", False),
        ("message.ssn.matches('[0-9]{3}-[0-9]{2}-[0-9]{4}') && size(message.phones) == 2", True),
        ("message.home.street == 'Main' && message.photo == b'\\xff\\x00'", True),
        ("has(message.nothing)", False),
        ("message.name == 'Bob' ; message.age > 40", True),
        ("message.name == 'Ada' ; message.age > 40", False),
        ("'a@b.org'.isEmail() && !'a@-b'.isEmail() && '::1'.isIpv6() && 'x.org'.isHostname()", True),
        ("message.absent > 1", False),
        ("this is not CEL", False),
    ],
)
def test_conditions_as_confluents(
    registry: RegistryProcess,
    client: RegistryClient,
    theirs: SchemaRegistryClient,
    topic: str,
    expr: str,
    holds: bool,
) -> None:
    registered(registry, topic, AVRO, condition(expr))
    ours = AvroSerializer(AVRO, client=client, config=LATEST)
    their = their_avro.AvroSerializer(theirs, json.dumps(AVRO), conf=LATEST)
    if holds:
        assert ours.serialize(topic, ADA) == their(copy.deepcopy(ADA), context(topic))
        return
    with pytest.raises(TheirError):
        their(copy.deepcopy(ADA), context(topic))
    with pytest.raises(SerializationError, match=f"The value of {topic}: the rule checked failed: "):
        ours.serialize(topic, ADA)


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "CEL_FIELD", "expr": "typeName == 'STRING' ; value + '-' + name"},
        {"type": "CEL_FIELD", "expr": "name == 'street' ; fullName + message.street", "tags": ["PII"]},
        {"type": "CEL_FIELD", "expr": "name == 'age' ; value + 1"},
        {"type": "CEL", "expr": "{'name': message.name + '!', 'age': message.age * 2}"},
        {"type": "JSONATA", "expr": "$merge([$, {'name': name & '?', 'age': age + 4}])"},
    ],
)
def test_transformations_as_confluents(
    registry: RegistryProcess, client: RegistryClient, theirs: SchemaRegistryClient, topic: str, rule: dict[str, Any]
) -> None:
    registered(registry, topic, AVRO, {"name": "changed", "kind": "TRANSFORM", "mode": "WRITE", **rule})
    # JSONata has no bytes.
    wanted: dict[str, Any] = ADA | {"photo": None}
    record = copy.deepcopy(wanted)
    ours = AvroSerializer(AVRO, client=client, config=LATEST).serialize(topic, record)
    assert record == wanted, "the application's value is not changed"
    assert ours == their_avro.AvroSerializer(theirs, json.dumps(AVRO), conf=LATEST)(record, context(topic))
    assert AvroDeserializer(client=client).deserialize(topic, ours) != wanted


def test_a_condition_about_fields(registry: RegistryProcess, client: RegistryClient, topic: str) -> None:
    registered(registry, topic, AVRO, condition("typeName == 'STRING' ; value != ''", type="CEL_FIELD", doc="empty"))
    writer = AvroSerializer(AVRO, client=client, config=LATEST)
    assert writer.serialize(topic, ADA)
    with pytest.raises(SerializationError, match=r"empty \(field x.Address.street\)"):
        writer.serialize(topic, ADA | {"home": {"street": ""}})


def test_rules_of_a_registered_schema_are_carried_out(
    registry: RegistryProcess, client: RegistryClient, topic: str
) -> None:
    """A version inherits the rules of the previous version, also when a serializer registers it."""
    registered(registry, topic, AVRO, condition("message.age > 40"))
    with pytest.raises(SerializationError, match="the rule checked failed"):
        AvroSerializer(AVRO, client=client).serialize(topic, ADA)


def test_actions(registry: RegistryProcess, client: RegistryClient, topic: str) -> None:
    failing = condition("message.age > 40", mode="WRITEREAD", onFailure="NONE,ERROR")
    registered(registry, topic, AVRO, failing)
    data = AvroSerializer(AVRO, client=client).serialize(topic, ADA)
    with pytest.raises(SerializationError, match="the rule checked failed"):
        AvroDeserializer(client=client).deserialize(topic, data)
    registered(registry, f"{topic}-2", AVRO, condition("true", onSuccess="ERROR"))
    with pytest.raises(SerializationError, match="the rule checked stops it"):
        AvroSerializer(AVRO, client=client).serialize(f"{topic}-2", ADA)
    registered(registry, f"{topic}-3", AVRO, condition("message.age > 40", disabled=True))
    assert AvroSerializer(AVRO, client=client).serialize(f"{topic}-3", ADA)
    registered(registry, f"{topic}-4", AVRO, condition("true", type="LUA"))
    with pytest.raises(SerializationError, match=r"the type LUA is not supported; rule\.executors can add it"):
        AvroSerializer(AVRO, client=client).serialize(f"{topic}-4", ADA)
    own: dict[str, Any] = {"rule.executors": {"LUA": lambda rule, call, value: rule.expr == "true"}}
    assert AvroSerializer(AVRO, client=client, config=own).serialize(f"{topic}-4", ADA)


def test_dead_letters_as_confluents(
    registry: RegistryProcess, client: RegistryClient, theirs: SchemaRegistryClient, topic: str
) -> None:
    from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
    from confluent_kafka.schema_registry.rules.dlq.dlq_action import DlqAction

    failing = condition("message.age > 40", onFailure="DLQ", params={"dlq.topic": "dead"})
    registered(registry, topic, AVRO, failing, encrypting(topic))
    letters: list[DeadLetter] = []
    config = LATEST | {"dlq.sender": letters.append}
    headers: Any = [("a", b"1")]
    key = AvroSerializer(client=client)
    key.configure({}, is_key=True)
    key.serialize(topic, "the key")
    with pytest.raises(SerializationError, match=r"the rule checked failed: .*; it was sent to dead"):
        AvroSerializer(AVRO, client=client, config=config).serialize(topic, ADA, headers)

    class Producer:
        def produce(self, topic: str, **options: Any) -> None:
            self.sent = {"topic": topic, **options}

        def poll(self, _: float) -> None: ...

    producer, rules = Producer(), their_registry()
    kind: Any = CelExecutor
    rules.register_executor(kind())
    rules.register_action(DlqAction({"producer": producer}))
    their = their_avro.AvroSerializer(theirs, json.dumps(AVRO), conf=LATEST, rule_registry=rules)
    with pytest.raises(TheirError):
        their(copy.deepcopy(ADA), SerializationContext(topic, MessageField.VALUE, headers))
    (letter,) = letters
    assert (letter.topic, letter.key) == ("dead", b"the key")
    assert letter.value is not None
    assert json.loads(letter.value) == json.loads(producer.sent["value"])
    assert json.loads(letter.value)["home"] == {"street": "<REDACTED>"}
    assert [name for name, _ in letter.headers] == [name for name, _ in producer.sent["headers"]]
    assert dict(letter.headers) | {"__rule.exception": b""} == dict(producer.sent["headers"]) | {
        "__rule.exception": b""
    }
    # A record that is sent again from the dead-letter topic passes the rule that sent it there.
    secret = config | SECRET
    assert AvroSerializer(AVRO, client=client, config=secret).serialize(topic, ADA, letter.headers)


def test_dead_letters_without_a_sender_say_so(registry: RegistryProcess, client: RegistryClient, topic: str) -> None:
    failing = condition("message.age > 40", onFailure="DLQ", params={"dlq.topic": "dead"})
    registered(registry, topic, AVRO, failing)
    with pytest.raises(SerializationError, match=r"it was not sent to dead: set dlq\.sender"):
        AvroSerializer(AVRO, client=client, config=LATEST).serialize(topic, ADA)


def migrated_schemas(registry: RegistryProcess, topic: str, first_schema: str, second_schema: str, kind: str) -> None:
    subject = f"{topic}-value"
    assert registry.ask("PUT", f"/config/{subject}", {"compatibilityGroup": "major"})[0] == 200
    up = {"name": "up", "kind": "TRANSFORM", "type": "JSONATA", "mode": "UPGRADE"}
    down = {"name": "down", "kind": "TRANSFORM", "type": "JSONATA", "mode": "DOWNGRADE"}
    up["expr"] = "$merge([$sift($, function($v, $k) {$k != 'full'}), {'name': full}])"
    down["expr"] = "$merge([$sift($, function($v, $k) {$k != 'name'}), {'full': name}])"
    registry.register(subject, first_schema, schemaType=kind, metadata={"properties": {"major": "1"}})
    registry.register(
        subject,
        second_schema,
        schemaType=kind,
        metadata={"properties": {"major": "2"}},
        ruleSet={"migrationRules": [up, down]},
    )


def avro_with(name: str) -> str:
    fields = [{"name": name, "type": "string"}, {"name": "age", "type": "int"}]
    return json.dumps({"type": "record", "name": "Person", "namespace": "x", "fields": fields})


def json_with(name: str) -> str:
    properties = {name: {"type": "string"}, "age": {"type": "integer"}}
    return json.dumps({"type": "object", "title": "P", "properties": properties, "additionalProperties": False})


@pytest.mark.parametrize(
    ("kind", "schema", "writer", "reader", "their_reader"),
    [
        (
            "AVRO",
            avro_with,
            AvroSerializer,
            AvroDeserializer,
            lambda client, conf: their_avro.AvroDeserializer(client, conf=conf),
        ),
        (
            "JSON",
            json_with,
            JsonSchemaSerializer,
            JsonSchemaDeserializer,
            lambda client, conf: their_json.JSONDeserializer(None, schema_registry_client=client, conf=conf),
        ),
    ],
)
def test_migrations_between_major_versions(
    registry: RegistryProcess,
    client: RegistryClient,
    theirs: SchemaRegistryClient,
    topic: str,
    kind: str,
    schema: Callable[[str], str],
    writer: Any,
    reader: Any,
    their_reader: Callable[[SchemaRegistryClient, dict[str, Any]], Any],
) -> None:
    first_schema, second_schema = schema("full"), schema("name")
    migrated_schemas(registry, topic, first_schema, second_schema, kind)
    for major, value, wanted in (
        ("1", {"full": "Ada", "age": 36}, {"name": "Ada", "age": 36}),
        ("2", {"name": "Bob", "age": 7}, {"full": "Bob", "age": 7}),
    ):
        config = {"auto.register.schemas": False, "use.latest.with.metadata": {"major": major}}
        data = writer(first_schema if major == "1" else second_schema, client=client, config=config).serialize(
            topic, value
        )
        other = {"use.latest.with.metadata": {"major": "2" if major == "1" else "1"}}
        assert reader(client=client, config=other).deserialize(topic, data) == wanted
        assert their_reader(theirs, other)(data, context(topic)) == wanted
        assert reader(client=client).deserialize(topic, data) == value
