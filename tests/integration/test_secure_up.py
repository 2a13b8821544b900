"""`ottla up --secure`: certificates, a first user and the files of clients, with third-party clients."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from ottla.cli.app import run
from tests.support.secured_up import SecuredUp


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredUp]:
    with SecuredUp(tmp_path_factory.mktemp("secured") / "one") as running:
        yield running


def produce(settings: dict[str, str], topic: str, value: bytes) -> None:
    failures: list[object] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce(topic, value=value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None]


def consume(settings: dict[str, str], topic: str) -> bytes:
    consumer = confluent_kafka.Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return message.value()


def test_the_files_are_enough_for_clients(secured: SecuredUp, capsys: pytest.CaptureFixture[str]) -> None:
    produce(secured.librdkafka(), "greetings", b"world")
    assert consume(secured.librdkafka(), "greetings") == b"world"
    assert run(["topics", "list", "--command-config", str(secured.file("client.properties"))]) == 0
    assert "greetings" in capsys.readouterr().out
    assert "BEGIN CERTIFICATE" in secured.file("ca.pem").read_text()


def test_what_is_printed_can_be_pasted(secured: SecuredUp) -> None:
    program = secured.said.partition("in Python:\n")[2].partition("\nOther users")[0]
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (completed.returncode, completed.stdout) == (0, "0 records are missing\n"), completed.stderr
    assert f"--command-config {secured.file('client.properties')}" in secured.said


def test_strangers_are_refused_and_users_have_only_their_rights(
    secured: SecuredUp, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    admin = str(secured.file("client.properties"))
    assert run(["topics", "list", "-b", secured.bootstrap, "--timeout", "3000"]) == 1
    wrong = {**secured.librdkafka(), "sasl.password": "guess"}
    errors: list[str] = []
    client = AdminClient({**wrong, "error_cb": lambda error: errors.append(str(error))})
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=2)
    client.poll(1)
    assert any("uthentication" in error for error in errors)
    add = [
        "configs",
        "alter",
        "--command-config",
        admin,
        "--user",
        "alice",
        "--set",
        "SCRAM-SHA-512=[password=alice-secret]",
    ]
    assert run(add) == 0
    alice = tmp_path / "alice.properties"
    text = secured.file("client.properties").read_text().replace('"admin"', '"alice"')
    password = text.partition('password="')[2].partition('"')[0]
    alice.write_text(text.replace(password, "alice-secret"))
    assert run(["topics", "create", "orders", "--command-config", admin]) == 0
    capfd.readouterr()
    assert run(["topics", "list", "--command-config", str(alice)]) == 0
    assert "orders" not in capfd.readouterr().out
    grant = [
        "acls",
        "add",
        "--command-config",
        admin,
        "--allow-principal",
        "User:alice",
        "--producer",
        "--topic",
        "orders",
    ]
    assert run(grant) == 0
    produce({**secured.librdkafka(), "sasl.username": "alice", "sasl.password": "alice-secret"}, "orders", b"1")


def test_a_wrong_trust_store_is_explained(
    secured: SecuredUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ottla.tls.authority import new_authority

    other = tmp_path / "other.pem"
    other.write_text(new_authority("another").certificate)
    text = secured.file("client.properties").read_text().replace(str(secured.file("ca.pem")), str(other))
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(text)
    assert run(["topics", "list", "--command-config", str(wrong), "--timeout", "3000"]) == 1
    assert "ssl.truststore" in capsys.readouterr().err


def test_further_clients_get_certificates(
    secured: SecuredUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data", str(secured.data)]
    assert run(["certificates", "create", "billing", "--group", "finance", "--days", "2", *data]) == 0
    store = secured.file("clients/billing.pem")
    assert f"Wrote {store}; its principal is User:CN=billing,OU=finance." in capsys.readouterr().out
    with_it = {"ssl.certificate.location": str(store), "ssl.key.location": str(store)}
    produce({**secured.librdkafka(), **with_it}, "bills", b"again")

    assert run(["certificates", "list", "--json", *data]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [certificate["principal"] for certificate in listed] == ["User:CN=admin", "User:CN=billing,OU=finance"]
    assert run(["certificates", "create", "billing", *data]) == 1
    assert "exists already" in capsys.readouterr().err
    assert run(["certificates", "create", "../x", *data]) == 2
    assert run(["certificates", "create", "x", "--data", str(tmp_path)]) == 1
    assert "'ottla up --secure" in capsys.readouterr().err


def test_keys_and_passwords_are_private(secured: SecuredUp) -> None:
    for path in secured.data.rglob("*"):
        assert not path.stat().st_mode & stat.S_IRWXO, path
    names = ("client.properties", "librdkafka.properties", "client.pem")
    for path in (*map(secured.file, names), secured.file("secure"), *secured.file("secure").iterdir()):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


def test_a_second_start_uses_the_same_files_and_a_cluster_stays_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "again"
    with SecuredUp(data) as first:
        produce(first.librdkafka(), "kept", b"1")
        before = {name: first.file(name).read_bytes() for name in ("ca.pem", "client.pem", "secure/node-1.pem")}
        password = first.librdkafka()["sasl.password"]
    with SecuredUp(data) as second:
        assert consume(second.librdkafka(), "kept") == b"1"
        assert before == {name: second.file(name).read_bytes() for name in before}
        assert second.librdkafka()["sasl.password"] == password
        assert second.bootstrap != first.bootstrap
    assert run(["up", "--data", str(data), "--port", "0"]) == 1
    assert "add --secure" in capsys.readouterr().err
    plain = tmp_path / "plain"
    (plain / "node-1").mkdir(parents=True)
    assert run(["up", "--secure", "--data", str(plain), "--port", "0"]) == 1
    assert "made without --secure" in capsys.readouterr().err
    assert run(["up", "--secure", "--insecure", "--data", str(plain)]) == 2


def test_three_nodes_survive_the_loss_of_one(tmp_path: Path) -> None:
    with SecuredUp(tmp_path / "three", nodes=3) as cluster:
        settings = cluster.librdkafka()
        produce(settings, "before", b"1")
        os.kill(int(cluster.file("node-2/node.pid").read_text()), signal.SIGKILL)
        produce(settings, "after", b"2")
        assert consume(settings, "before") == b"1"
        assert consume({**settings, "group.id": "others"}, "after") == b"2"
