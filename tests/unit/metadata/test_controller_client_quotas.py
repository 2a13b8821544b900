"""Quotas of users, client ids and addresses: accepted and refused changes, and the stored quotas."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.metadata.image import QuotaEntity
from ottla.metadata.image_records import image_records
from ottla.model.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.wire.messages.metadata_records import ClientQuotaRecord
from tests.unit.metadata.harness import ControllerHarness, done


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness()


def entry(entity: dict[str, str | None], *operations: tuple[str, float | None]) -> RequestEntryData:
    return RequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in operations],
    )


def alter(harness: ControllerHarness, *entries: RequestEntryData, validate_only: bool = False) -> list[Any]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return done(harness.controller.ask(request)).entries


def quotas(harness: ControllerHarness) -> dict[QuotaEntity, dict[str, float]]:
    return {entity: dict(values) for entity, values in harness.image.client_quotas.by_entity.items()}


BOTH = {"user": "alice", "client-id": None}
BOTH_AS_KEY: QuotaEntity = (("client-id", None), ("user", "alice"))


def test_quotas_are_set_changed_and_removed(harness: ControllerHarness) -> None:
    first = alter(harness, entry(BOTH, ("producer_byte_rate", 1000.0), ("request_percentage", 12.5)))
    assert [answer.error_code for answer in first] == [ErrorCode.NONE]
    assert {part.entity_type: part.entity_name for part in first[0].entity} == BOTH
    assert quotas(harness) == {BOTH_AS_KEY: {"producer_byte_rate": 1000.0, "request_percentage": 12.5}}
    alter(harness, entry(BOTH, ("producer_byte_rate", 2000.0), ("request_percentage", None)))
    assert quotas(harness) == {BOTH_AS_KEY: {"producer_byte_rate": 2000.0}}
    alter(harness, entry(BOTH, ("producer_byte_rate", None), ("consumer_byte_rate", None)))
    assert quotas(harness) == {}


def test_nothing_is_written_for_what_is_true_already(harness: ControllerHarness) -> None:
    change = entry({"ip": "10.0.0.1"}, ("connection_creation_rate", 5.0))
    alter(harness, change)
    offset = harness.log.end_offset
    alter(harness, change, entry({"user": "bob"}, ("producer_byte_rate", None)))
    assert harness.log.end_offset == offset


def test_a_change_that_is_only_validated_changes_nothing(harness: ControllerHarness) -> None:
    answers = alter(harness, entry(BOTH, ("producer_byte_rate", 1.0)), entry(BOTH | {"x": "y"}), validate_only=True)
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert quotas(harness) == {}


def test_quotas_outlive_a_restart_and_are_in_snapshots(harness: ControllerHarness) -> None:
    alter(harness, entry(BOTH, ("controller_mutation_rate", 1.5)), entry({"ip": None}, ("connection_creation_rate", 3)))
    before = quotas(harness)
    assert len(before) == 2
    harness.reopen()
    assert quotas(harness) == before
    kept = [record for record in image_records(harness.image) if isinstance(record, ClientQuotaRecord)]
    assert {record.key: record.value for record in kept} == {
        "controller_mutation_rate": 1.5,
        "connection_creation_rate": 3.0,
    }


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ({}, "producer_byte_rate", 1.0),
        ({"user": ""}, "producer_byte_rate", 1.0),
        ({"client-id": ""}, "producer_byte_rate", 1.0),
        ({"": "name"}, "producer_byte_rate", 1.0),
        ({"other": "name"}, "producer_byte_rate", 1.0),
        ({"user": "u"}, "bad", 1.0),
        ({"user": "u"}, "connection_creation_rate", 1.0),
        ({"user": "u"}, "producer_byte_rate", 10.5),
        ({"user": "u"}, "consumer_byte_rate", 2.0**63 * 2),
        ({"user": "u"}, "request_percentage", -1.0),
        ({"user": "u"}, "request_percentage", 0.0),
        ({"user": "u"}, "request_percentage", float("nan")),
        ({"user": "u", "ip": "1.2.3.4"}, "connection_creation_rate", 1.0),
        ({"client-id": "c", "ip": "1.2.3.4"}, "connection_creation_rate", 1.0),
        ({"ip": "1.2.3.4"}, "producer_byte_rate", 1.0),
        ({"ip": "1.2.3.4"}, "connection_creation_rate", 1.5),
        ({"ip": "1.2.3.4"}, "connection_creation_rate", 2.0**31),
        ({"ip": "not an address"}, "connection_creation_rate", 1.0),
        ({"ip": "example.org"}, "connection_creation_rate", 1.0),
    ],
)
def test_what_makes_no_sense_is_refused(
    harness: ControllerHarness, entity: dict[str, str | None], key: str, value: float
) -> None:
    refused = alter(harness, entry(entity, (key, value)), entry({"user": "good"}, ("request_percentage", 1.0)))
    assert [answer.error_code for answer in refused] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert refused[0].error_message
    assert quotas(harness) == {(("user", "good"),): {"request_percentage": 1.0}}


def test_what_is_named_twice_is_refused(harness: ControllerHarness) -> None:
    key = "producer_byte_rate"
    answers = alter(harness, entry({"user": "u"}, (key, 1.0)), entry({"user": "u"}, (key, 2.0)))
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST]
    answers = alter(harness, entry({"user": "u"}, (key, 1.0), (key, 2.0)))
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST]
    assert quotas(harness) == {}
