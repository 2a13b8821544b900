"""A scenario that sets, removes and describes SCRAM credentials one by one: the answers, and the metadata records.

The same requests go to Apache Kafka (`tests/data/make_scram_answers.py` keeps its answers) and to Ottla. Messages
become "said", and answers for several users, which have no order, are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.records.iterate import iterate_batches, iterate_records
from ottla.wire.message import Message, Structure
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.wire.messages.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from ottla.wire.metadata_codec import decode_record
from tests.support.raw_client import ConnectionClosed, RawClient

__all__ = ["play"]

SHA_256, SHA_512 = 1, 2
SALT = memoryview(b"a salt")
SALTED_PASSWORD = memoryview(bytes(range(32)))
Said = tuple[str, Message]


def play(bootstrap: str, controller: str, metadata_log: Path) -> dict[str, Any]:
    """Sends all requests; returns the answers by label, and then the records of credentials in the metadata log."""
    answers: dict[str, Any] = {}
    for label, request in _requests():
        answers[label] = _answer(bootstrap, request)
    for label, request in (("alter", _alter(_set("c"))), ("describe", _describe("c")), ("describe all", _describe())):
        answers[f"controller: {label}"] = _answer(controller, request)
    return {**answers, **dict(_records(metadata_log))}


def _answer(address: str, request: Message) -> Any:
    with RawClient(address) as client:
        try:
            return _plain(client.call(request, 0), "")
        except ConnectionClosed:
            return "closed"


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, Structure):
        return {slot: _plain(getattr(value, slot), slot) for slot in value.__slots__}
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    if not isinstance(value, list):
        return "said" if name == "error_message" and value else value
    return sorted((_plain(element, name) for element in value), key=repr)


def _records(metadata_log: Path) -> Iterator[tuple[str, Any]]:
    kinds = (UserScramCredentialRecord, RemoveUserScramCredentialRecord)
    number = 0
    for batch in iterate_batches(metadata_log.read_bytes()):
        if batch.header.is_control:
            continue
        for log_record in iterate_records(batch):
            record = decode_record(memoryview(log_record.value or b""))
            if isinstance(record, kinds):
                yield f"record {number}", [type(record).__name__, _plain(record, "")]
                number += 1


def _set(
    name: str,
    mechanism: int = SHA_256,
    iterations: int = 4096,
    *,
    salt: memoryview = SALT,
    password: memoryview = SALTED_PASSWORD,
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=password
    )


def _remove(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def _alter(*changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, ScramCredentialDeletion)],
        upsertions=[change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )


def _describe(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])


def _requests() -> Iterator[Said]:
    nobody = memoryview(b"")
    yield "describe all when there are none", _describe()
    yield "describe somebody when there is nobody", _describe("a")
    yield "alter nothing", _alter()
    yield "set one", _alter(_set("a"))
    yield "set another mechanism", _alter(_set("a", SHA_512, 8192))
    yield "set somebody else", _alter(_set("b", SHA_512))
    yield "describe one", _describe("a")
    yield "describe two and a stranger", _describe("b", "stranger", "a")
    yield "describe one twice", _describe("a", "b", "a")
    yield "describe nobody by name", _describe("")
    yield "describe all", _describe()
    yield "describe all, asked with null", DescribeUserScramCredentialsRequest(users=None)
    yield "set again, with more iterations", _alter(_set("a", SHA_256, 16384))
    for iterations in (-1, 0, 4095, 16385):
        yield f"set with {iterations} iterations", _alter(_set("x", SHA_256, iterations))
        yield f"set SHA-512 with {iterations} iterations", _alter(_set("x", SHA_512, iterations))
    for mechanism in (-1, 0, 3, 100):
        yield f"set with mechanism {mechanism}", _alter(_set("x", mechanism))
        yield f"remove mechanism {mechanism}", _alter(_remove("a", mechanism))
    yield "set for nobody", _alter(_set(""))
    yield "set for nobody with an unknown mechanism", _alter(_set("", 9))
    yield "remove of nobody", _alter(_remove(""))
    yield "remove what is not there", _alter(_remove("b", SHA_256))
    yield "remove of a stranger", _alter(_remove("stranger"))
    yield "set without salt", _alter(_set("saltless", salt=nobody))
    yield "set without password", _alter(_set("careless", password=nobody))
    yield "set two mechanisms of one at once", _alter(_set("x"), _set("x", SHA_512))
    yield "remove and set at once", _alter(_remove("a"), _set("a"))
    yield "remove two mechanisms at once", _alter(_remove("a"), _remove("a", SHA_512))
    yield "set three times at once", _alter(_set("x"), _set("x"), _set("x"))
    yield "one good, two bad", _alter(_set("good"), _set("bad", SHA_256, 1), _remove("gone"))
    yield "a stranger is removed and set at once", _alter(_remove("stranger"), _set("stranger"))
    yield "describe all after what failed", _describe()
    yield "remove one", _alter(_remove("a"))
    yield "describe who has less", _describe("a")
    yield "remove the last", _alter(_remove("a", SHA_512), _remove("b", SHA_512))
    yield "describe all that is left", _describe()
