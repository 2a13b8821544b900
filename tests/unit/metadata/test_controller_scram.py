"""SCRAM credentials: the derived keys, their storage, and their visibility."""

from __future__ import annotations

import base64
import hashlib
from functools import partial
from typing import Any

import pytest

from ottla.metadata.controller.decision import Decision, DecisionContext
from ottla.metadata.controller.scram import decide_alter_user_scram_credentials
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import FeaturesImage, MetadataImage
from ottla.metadata.image_records import image_records
from ottla.model.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.metadata_records import UserScramCredentialRecord
from tests.unit.metadata.harness import ControllerHarness, done

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SALTED_PASSWORD = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness()


def upsertion(name: str = "user", mechanism: int = 1) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=4096, salt=SALT, salted_password=SALTED_PASSWORD
    )


def alter(harness: ControllerHarness, *upsertions: ScramCredentialUpsertion, remove: tuple[str, ...] = ()) -> Any:
    request = AlterUserScramCredentialsRequest(
        upsertions=list(upsertions), deletions=[ScramCredentialDeletion(name=name, mechanism=1) for name in remove]
    )
    return {result.user: result.error_code for result in done(harness.controller.ask(request)).results}


def test_the_keys_are_those_with_which_the_example_of_rfc_7677_comes_out(harness: ControllerHarness) -> None:
    assert alter(harness, upsertion()) == {"user": ErrorCode.NONE}
    kept = harness.image.scram["user", 1]
    assert (kept.salt, kept.iterations) == (SALT, 4096)
    first = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    auth_message = f"{first},{server},{last}".encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    # What a server does: it gets the client's key out of the proof, and compares the key's hash.
    signature = hashlib_hmac(kept.stored_key, auth_message)
    client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == kept.stored_key
    assert (
        base64.b64encode(hashlib_hmac(kept.server_key, auth_message)) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


def hashlib_hmac(key: bytes, text: bytes) -> bytes:
    """HMAC with SHA-256, written out so that the test does not lean on what it tests."""
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded) + text).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in padded) + inner).digest()


def test_credentials_outlive_a_restart_and_are_in_a_snapshot(harness: ControllerHarness) -> None:
    alter(harness, upsertion("a"), upsertion("b", 2))
    alter(harness, upsertion("c"))
    assert alter(harness, remove=("c",)) == {"c": ErrorCode.NONE}
    before = dict(harness.image.scram)
    assert set(before) == {("a", 1), ("b", 2)}
    harness.reopen()
    assert dict(harness.image.scram) == before
    delta = MetadataDelta(MetadataImage())
    for record in image_records(harness.image):
        delta.replay(record)
    assert dict(delta.apply(offset=0, epoch=0, timestamp_ms=0).scram) == before


def test_nothing_is_written_when_all_of_it_is_refused(harness: ControllerHarness) -> None:
    offset = harness.log.end_offset
    assert alter(harness, upsertion("a"), upsertion("a", 2), remove=("stranger",)) == {
        "stranger": ErrorCode.RESOURCE_NOT_FOUND,
        "a": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert harness.log.end_offset == offset


def test_a_cluster_that_runs_at_an_older_level_takes_none(harness: ControllerHarness) -> None:
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion()])

    def decide_at(level: int, decision_context: DecisionContext) -> Decision[Any]:
        image = decision_context.image._replace(features=FeaturesImage(finalized={"metadata.version": level}))
        return decide_alter_user_scram_credentials(request, decision_context._replace(image=image))

    for level, code in ((10, ErrorCode.UNSUPPORTED_VERSION), (11, ErrorCode.NONE)):
        answer = done(harness.controller.submit(partial(decide_at, level)))
        assert [result.error_code for result in answer.results] == [code]


def test_secrets_are_not_in_what_is_printed_of_them(harness: ControllerHarness) -> None:
    alter(harness, upsertion())
    kept = harness.image.scram["user", 1]
    record = next(
        image_record
        for image_record in image_records(harness.image)
        if isinstance(image_record, UserScramCredentialRecord)
    )
    for printed in (repr(kept), repr(harness.image), repr(record), repr(upsertion())):
        for secret in (SALTED_PASSWORD, *kept[:3]):
            assert repr(secret)[2:-1] not in printed
            assert secret.hex() not in printed
    assert "'user'" in repr(record)
