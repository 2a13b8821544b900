from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode, KafkaError

from .facts import KAFKA

# Apache Kafka 4.4 added these; tests/wire compares all of them with its own classes.
ADDED_IN_4_4 = [
    [134, "GROUP_DELETION_FAILED", False],
    [135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", False],
    [136, "CONTROLLER_ID_NOT_REGISTERED", False],
]


def test_codes_names_and_retriability_are_kafkas() -> None:
    ours = [[int(code), code.name, code.retriable] for code in ErrorCode]
    assert ours == [*KAFKA["errors"], *ADDED_IN_4_4]


@pytest.mark.parametrize("code", list(ErrorCode), ids=lambda code: code.name)
def test_every_message_is_one_sentence(code: ErrorCode) -> None:
    assert code.message.endswith(".")
    assert code.message[0].isupper() or code.message.startswith("acks")
    assert len(code.message) < 100


def test_a_code_is_found_by_its_number() -> None:
    assert ErrorCode(74) is ErrorCode.FENCED_LEADER_EPOCH


def test_a_code_of_a_newer_node_is_an_unknown_error() -> None:
    assert ErrorCode.told(74) is ErrorCode.FENCED_LEADER_EPOCH
    assert ErrorCode.told(30_000) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_without_sentence_takes_the_codes() -> None:
    error = KafkaError(ErrorCode.NOT_CONTROLLER)
    assert error.message == ErrorCode.NOT_CONTROLLER.message
    assert str(error) == f"NOT_CONTROLLER: {error.message}"


def test_an_error_keeps_its_own_sentence() -> None:
    assert KafkaError(ErrorCode.INVALID_CONFIG, "Nope.").message == "Nope."


def test_a_message_is_short_enough_for_the_protocol() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, "x" * 40_000)
    assert error.message == "x" * 1_000 + "..."
    assert KafkaError(ErrorCode.INVALID_REQUEST, "x" * 1_000).message == "x" * 1_000
