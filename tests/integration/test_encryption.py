"""End-to-end encryption with real clients and a real node: the log holds ciphertext only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.serialization import MessageField, SerializationContext

import ottla.testing
from ottla.cli.app import run
from ottla.encryption import DataKeys, DecryptingDeserializer, EncryptingSerializer, FileKeyService
from ottla.serdes import StringDeserializer, StringSerializer

SECRET = "one espresso for alice"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster() as cluster:
        yield cluster


@pytest.fixture
def settings(cluster: ottla.testing.Cluster, tmp_path: Path) -> Path:
    """A client's properties with a key of its own."""
    keys = tmp_path / "keys.json"
    assert run(["keys", "create", "orders", "--file", str(keys)]) == 0
    path = tmp_path / "client.properties"
    path.write_text(
        f"bootstrap.servers={cluster.bootstrap}\nencryption.key.name=orders\nencryption.key.file={keys}\n"
        "encryption.headers=card\n"
    )
    return path


def written_bytes(cluster: ottla.testing.Cluster, topic: str) -> bytes:
    """The content of a topic's log files on the node's disk."""
    files = [
        path for path in Path(cluster.node(1).directory).rglob("*.log") if path.parent.name.startswith(f"{topic}-")
    ]
    assert files
    return b"".join(path.read_bytes() for path in files)


def consumed(capfd: pytest.CaptureFixture[str], settings: Path, topic: str, *arguments: str) -> list[dict[str, object]]:
    words = ["consume", topic, "--from-beginning", "--exit", "--json", "--command-config", str(settings), *arguments]
    capfd.readouterr()
    assert run(words) == 0
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_the_command_line_encrypts_and_the_log_holds_ciphertext_only(
    cluster: ottla.testing.Cluster, settings: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    order = tmp_path / "order"
    order.write_text(SECRET)
    words = ["produce", "encrypted", "--command-config", str(settings), "--header", "card=4111-1111", "--key", "alice"]
    assert run([*words, str(order)]) == 0
    stored = written_bytes(cluster, "encrypted")
    assert b"espresso" not in stored
    assert b"4111" not in stored
    assert b"alice" in stored
    (record,) = consumed(capfd, settings, "encrypted")
    assert record["value"] == SECRET
    assert record["headers"] == [["card", "4111-1111"]]
    assert consumed(capfd, settings, "encrypted", "--filter", 'value == "nothing"') == []
    assert run(["consume", "encrypted", "-F", "--exit", "-b", cluster.bootstrap]) == 0
    assert "espresso" not in capfd.readouterr().out


def test_another_client_with_the_same_serializers(
    cluster: ottla.testing.Cluster, settings: Path, tmp_path: Path
) -> None:
    """The serializers work with any client: here with confluent-kafka, whose serializers are functions."""
    keys = DataKeys(FileKeyService(str(tmp_path / "keys.json")))
    serializer = EncryptingSerializer(StringSerializer(), keys=keys, key_name="orders")
    deserializer = DecryptingDeserializer(StringDeserializer(), keys=keys)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    context = SerializationContext("foreign", MessageField.VALUE)
    producer.produce("foreign", value=serializer.serialize(context.topic, SECRET))
    assert producer.flush(60) == 0
    assert b"espresso" not in written_bytes(cluster, "foreign")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["foreign"])
    message = consumer.poll(60)
    assert message is not None
    assert deserializer.deserialize("foreign", message.value()) == SECRET
    consumer.close()


def test_rotation_re_encryption_and_the_end_of_a_version(
    cluster: ottla.testing.Cluster, settings: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keys, order = str(tmp_path / "keys.json"), tmp_path / "order"
    for name in ("rotated", "rotated-2"):
        assert run(["topics", "create", name, "--partitions", "3", "-b", cluster.bootstrap]) == 0
    for number in range(5):
        order.write_text(f"{SECRET} {number}")
        words = ["produce", "rotated", "--command-config", str(settings), "--header", "card=1", "--key", str(number)]
        assert run([*words, str(order)]) == 0
    before = consumed(capfd, settings, "rotated")
    assert run(["keys", "rotate", "orders", "--file", keys]) == 0
    assert sorted(map(str, consumed(capfd, settings, "rotated"))) == sorted(map(str, before))
    assert run(["keys", "re-encrypt", "rotated", "rotated-2", "--command-config", str(settings)]) == 0
    # A second run would write every record twice.
    assert run(["keys", "re-encrypt", "rotated", "rotated-2", "--command-config", str(settings)]) == 1
    assert run(["keys", "retire", "orders", "1", "--file", keys, "--yes"]) == 0
    after = consumed(capfd, settings, "rotated-2")
    fields = ("partition", "key", "value", "headers", "timestamp")
    assert sorted(str([record[name] for name in fields]) for record in after) == sorted(
        str([record[name] for name in fields]) for record in before
    )
    assert b"espresso" not in written_bytes(cluster, "rotated-2")
    assert run(["consume", "rotated", "-F", "--exit", "--command-config", str(settings)]) == 1
    assert "Version 1 of the key orders" in capfd.readouterr().err


def test_mistakes_are_explained(
    cluster: ottla.testing.Cluster, settings: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings.write_text(settings.read_text().replace("key.name=orders", "key.name=payments"))
    order = tmp_path / "order"
    order.write_text(SECRET)
    assert run(["produce", "mistakes", "--command-config", str(settings), str(order)]) == 1
    assert "There is no key payments" in capfd.readouterr().err
    assert run(["keys", "create", "orders", "--file", str(tmp_path / "keys.json")]) == 1
    assert "exists already" in capfd.readouterr().err
    assert run(["keys", "re-encrypt", "a", "a", "--command-config", str(settings)]) == 2
