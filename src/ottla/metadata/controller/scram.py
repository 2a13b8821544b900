"""Decisions about SCRAM credentials (KIP-554, KIP-900).

A client sends a password that it has salted and hashed. The controller stores the two keys that RFC 5802 derives from
it. They are enough to check a password, but not to learn it. A request changes at most one credential of a user: a user
that occurs twice is refused. Every user succeeds or fails independently.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from ottla.metadata.controller.decision import Decision, DecisionContext, ensure_bounded, repeated
from ottla.metadata.image import MetadataImage
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord

__all__ = ["decide_alter_user_scram_credentials"]

# From 3.5-IV2 on, the log may contain credentials.
SCRAM_LEVEL = 11
HASHES: dict[int, Callable[..., hashlib._Hash]] = {1: hashlib.sha256, 2: hashlib.sha512}
# Fewer iterations make a password too easy to guess; more iterations make every login too expensive for a server.
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384

Change = ScramCredentialDeletion | ScramCredentialUpsertion
ScramRecord = UserScramCredentialRecord | RemoveUserScramCredentialRecord


def decide_alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: DecisionContext
) -> Decision[AlterUserScramCredentialsResponse]:
    changes: list[Change] = [*request.deletions, *request.upsertions]
    ensure_bounded(len(changes))
    named_twice = repeated(change.name for change in changes)
    records: list[ScramRecord] = []
    # Results by user, so that a user that occurs twice gets one result.
    results: dict[str, AlterUserScramCredentialsResult] = {}
    for change in changes:
        # An error of the first occurrence takes precedence over the duplicate.
        if change.name in results:
            continue
        result = results[change.name] = AlterUserScramCredentialsResult(user=change.name, error_message=None)
        try:
            record = _record(change, context.image)
            if change.name in named_twice:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, "A request changes a user's credentials only once.")
            records.append(record)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return Decision(records, AlterUserScramCredentialsResponse(results=list(results.values())))


def _record(change: Change, image: MetadataImage) -> ScramRecord:
    """The record of a change; raises KafkaError for an invalid change, with the words that Kafka's tests expect."""
    if image.features.metadata_version < SCRAM_LEVEL:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The cluster's metadata.version is too low for SCRAM.")
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in HASHES:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialUpsertion):
        return _credential(change)
    if (change.name, change.mechanism) not in image.scram:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "The user has no such credential.")
    return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)


def _credential(change: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    if change.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not len(change.salted_password):
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty.")
    new_hash, salted_password = HASHES[change.mechanism], bytes(change.salted_password)
    client_key = hmac.digest(salted_password, b"Client Key", new_hash)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=bytes(change.salt),
        stored_key=new_hash(client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", new_hash),
        iterations=change.iterations,
    )
