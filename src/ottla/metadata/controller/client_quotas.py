"""Decisions about client quotas: ClientQuotaRecords (KIP-546, KIP-599, KIP-612).

An entity is a user, a client id, both, or an IP address. The name None is the default: it applies to clients without a
quota of their own. Every entity of a request succeeds or fails independently.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from ottla.metadata.controller.decision import Decision, DecisionContext, ensure_bounded, repeated
from ottla.metadata.image import CLIENT_ID, IP, USER, QuotaEntity
from ottla.model.addresses import address_bytes
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
    ResponseEntryData,
)
from ottla.wire.messages.metadata_records import ClientQuotaRecord
from ottla.wire.messages.metadata_records import EntityData as RecordEntityData

__all__ = ["decide_alter_client_quotas"]

_LONG_MAX = (1 << 63) - 1
_INT_MAX = (1 << 31) - 1

# The largest value of a quota with whole numbers; None for quotas that may be fractions.
_OF_CLIENTS: dict[str, int | None] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_OF_ADDRESSES: dict[str, int | None] = {"connection_creation_rate": _INT_MAX}

_FRACTION_MIN = 1e-6


def decide_alter_client_quotas(
    request: AlterClientQuotasRequest, context: DecisionContext
) -> Decision[AlterClientQuotasResponse]:
    """Refuses entities that occur more than once in the request, because the intended change is ambiguous."""
    by_entity = context.image.client_quotas.by_entity
    twice = repeated(_identity(entry) for entry in request.entries)
    records: list[ClientQuotaRecord] = []
    answers: dict[QuotaEntity, ResponseEntryData] = {}
    for entry in request.entries:
        entity = _identity(entry)
        if entity in answers:
            continue
        answer = answers[entity] = ResponseEntryData(
            error_message=None, entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        )
        try:
            if entity in twice:
                raise _invalid("the request names this entity more than once")
            records += _records(entity, entry.ops, by_entity.get(entity) or {})
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
    ensure_bounded(len(records))
    response = AlterClientQuotasResponse(entries=list(answers.values()))
    return Decision([] if request.validate_only else records, response)


def _identity(entry: RequestEntryData) -> QuotaEntity:
    parts = [(part.entity_type, part.entity_name) for part in entry.entity]
    return tuple(sorted(parts, key=lambda part: (part[0], part[1] or "")))


def _records(entity: QuotaEntity, operations: list[OpData], current: Mapping[str, float]) -> list[ClientQuotaRecord]:
    """The records for the changes; none for values that are already set."""
    allowed = _allowed_keys(entity)
    if twice := repeated(operation.key for operation in operations):
        raise _invalid(f"{min(twice)} is given more than once")
    records = []
    for operation in operations:
        key, value = operation.key, operation.value
        if operation.remove:
            if key in current:
                records.append(ClientQuotaRecord(entity=_parts(entity), key=key, remove=True))
            continue
        _check_value(allowed, key, value)
        if current.get(key) != value:
            records.append(ClientQuotaRecord(entity=_parts(entity), key=key, value=value))
    return records


def _parts(entity: QuotaEntity) -> list[RecordEntityData]:
    return [RecordEntityData(entity_type=kind, entity_name=name) for kind, name in entity]


def _allowed_keys(entity: QuotaEntity) -> dict[str, int | None]:
    kinds = [kind for kind, _ in entity]
    if not kinds:
        raise _invalid("a quota entity must name a user, a client-id or an ip")
    if twice := repeated(kinds):
        raise _invalid(f"an entity has at most one {min(twice)}")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"{kind!r} is not a type of quota entity")
        if name == "":
            raise _invalid(f"the name of a {kind} cannot be empty")
    if IP not in kinds:
        return _OF_CLIENTS
    if len(kinds) > 1:
        raise _invalid("Invalid quota entity combination: an ip stands alone, without user and client-id")
    name = entity[0][1]
    if name is not None and address_bytes(name) is None:
        raise _invalid(f"{name} is not a valid IP address; host names are not resolved")
    return _OF_ADDRESSES


def _check_value(allowed: dict[str, int | None], key: str, value: float) -> None:
    if key not in allowed:
        raise _invalid(f"entities of this type have no quota {key!r}")
    if not isfinite(value) or value <= 0:
        raise _invalid(f"{key} must be greater than 0")
    largest = allowed[key]
    if largest is None:
        return
    if value > largest:
        raise _invalid(f"{key} must be at most {largest}")
    if value % 1.0 > _FRACTION_MIN:
        raise _invalid(f"{key} must be a whole number")


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
