"""The table of decisions: each function takes the request of its API and gives the response of its API."""

from __future__ import annotations

import pytest

from ottla.broker.apis import CONTROLLER_HANDLERS
from ottla.metadata.controller.decisions import DECISIONS
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.messages.metadata import MetadataRequest
from tests.unit.metadata.harness import ControllerHarness


def class_name(annotation: str) -> str:
    """Of `module.Class`."""
    return annotation.rsplit(".", 1)[-1]


@pytest.mark.parametrize("api_key", DECISIONS, ids=lambda api_key: ApiKey(api_key).name.lower())
def test_a_decision_takes_and_gives_the_messages_of_its_api(api_key: int) -> None:
    spec, annotations = API_SPECS[ApiKey(api_key)], DECISIONS[api_key].__annotations__
    assert class_name(annotations["request"]) == spec.request_class.__name__
    assert class_name(annotations["return"].removeprefix("Decision[").removesuffix("]")) == spec.response_class.__name__


def test_every_decision_can_be_asked_for_on_a_controllers_listener() -> None:
    assert set(DECISIONS) <= set(CONTROLLER_HANDLERS)


@pytest.mark.parametrize("api_key", DECISIONS, ids=lambda api_key: ApiKey(api_key).name.lower())
def test_a_standby_controller_refuses_every_request(api_key: int) -> None:
    harness = ControllerHarness()
    harness.controller.deactivate()
    error = harness.controller.ask(API_SPECS[ApiKey(api_key)].request_class()).error  # type: ignore[arg-type, var-annotated]
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.NOT_CONTROLLER


def test_a_request_without_a_decision_is_a_programmers_error() -> None:
    with pytest.raises(KeyError):
        ControllerHarness().controller.ask(MetadataRequest())
