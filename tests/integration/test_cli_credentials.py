"""`ottla configs` for the SCRAM credentials of users."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cli.app import run
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.testing import Cluster, cluster
from ottla.wire.messages.metadata_records import UserScramCredentialRecord
from ottla.wire.metadata_codec import decode_record

PASSWORD = "a, b] and =c"
Command = Callable[..., str]


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def configs(node: Cluster, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", node.bootstrap)

    def call(*words: str, code: int = 0) -> str:
        assert run(["configs", *words]) == code
        captured = capfd.readouterr()
        assert PASSWORD not in captured.out + captured.err
        return captured.out + captured.err

    return call


def records_in_log(node: Cluster) -> list[UserScramCredentialRecord]:
    log = node.nodes[0].directory / "data" / "__cluster_metadata-0" / f"{0:020}.log"
    batches = [batch for batch in iterate_batches(log.read_bytes()) if not batch.header.is_control]
    records: list[Any] = [
        decode_record(memoryview(record.value or b"")) for batch in batches for record in iterate_records(batch)
    ]
    return [record for record in records if isinstance(record, UserScramCredentialRecord)]


def test_credentials_are_set_shown_and_removed(node: Cluster, configs: Command) -> None:
    password = f"SCRAM-SHA-256=[iterations=8192,password={PASSWORD.replace(']', '')}]"
    assert "Set SCRAM-SHA-256 of user alice." in configs("alter", "--user", "alice", "--set", password)
    credentials = ("--set", "SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=y]")
    configs("alter", "--entity-type", "users", "--entity-name", "bob", *credentials)
    configs("alter", "--user", "alice", "--set", "producer_byte_rate=1000")
    description = configs("describe", "--user", "alice")
    assert "producer_byte_rate" in description
    assert "SCRAM-SHA-256" in description
    assert "8192" in description
    assert json.loads(configs("describe", "--entity-type", "users", "--json")) == [
        {"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": 1000.0}},
        {"entity": {"user": "alice"}, "credentials": {"SCRAM-SHA-256": 8192}},
        {"entity": {"user": "bob"}, "credentials": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}},
    ]
    configs("alter", "--user", "alice", "--unset", "SCRAM-SHA-256")
    configs("alter", "--user", "bob", "--unset", "SCRAM-SHA-256,SCRAM-SHA-512")
    assert "SCRAM" not in configs("describe", "--entity-type", "users")
    assert "no such credential" in configs("alter", "--user", "alice", "--unset", "SCRAM-SHA-256", code=1)
    alice = next(record for record in records_in_log(node) if record.name == "alice")
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.replace("]", "").encode(), bytes(alice.salt), 8192)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    assert bytes(alice.stored_key) == hashlib.sha256(client_key).digest()
    assert bytes(alice.server_key) == hmac.digest(salted, b"Server Key", "sha256")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--user", "c", "--set", "SCRAM-SHA-256=[password=]"), 2, "is written as"),
        (("--user", "c", "--set", "SCRAM-SHA-256=secret"), 2, "is written as"),
        (("--user", "c", "--set", "SCRAM-SHA-256=[iterations=4095,password=x]"), 1, "from 4096 to 16384"),
        (("--user", "c", "--set", "SCRAM-SHA-256=[iterations=99999999999,password=x]"), 1, "from 4096 to 16384"),
        (("--user", "c", "--set", "SCRAM-SHA-256=[password=x],producer_byte_rate=1"), 2, "without quotas"),
        (("--user", "c", "--client", "d", "--set", "SCRAM-SHA-256=[password=x]"), 2, "belong to a user"),
        (("--user-defaults", "--set", "SCRAM-SHA-256=[password=x]"), 2, "belong to a user"),
        (("--user", "c", "--set", "SCRAM-SHA-256=[password=x]", "--validate-only"), 1, "cannot be checked"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(
    configs: Command, words: tuple[str, ...], code: int, sentence: str
) -> None:
    output = configs("alter", *words, code=code)
    assert sentence in output
    assert "secret" not in output
    assert "Traceback" not in output
