"""A list that APPEND makes longer than a string of the protocol may be."""

from __future__ import annotations

from ottla.model.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.metadata.harness import ControllerHarness, done
from tests.unit.metadata.test_controller_configs import APPEND, SET, harness, incremental

__all__ = ["harness"]

KEY = "follower.replication.throttled.replicas"


def replicas(first: int) -> str:
    """3,000 replicas; a value of about 28,000 bytes, which a request can carry."""
    return ",".join(f"{number}:1234" for number in range(first, first + 3_000))


def test_a_list_that_becomes_too_long_is_refused(harness: ControllerHarness) -> None:
    assert incremental(harness, 2, "t", (KEY, SET, replicas(0))) == ErrorCode.NONE
    assert incremental(harness, 2, "t", (KEY, APPEND, replicas(5_000))) == ErrorCode.INVALID_CONFIG
    assert harness.image.configs.of_topic("t") == {KEY: replicas(0)}


def test_other_resources_of_the_request_are_changed(harness: ControllerHarness) -> None:
    harness.create("u")
    assert incremental(harness, 2, "t", (KEY, SET, replicas(0))) == ErrorCode.NONE
    append = AlterableConfig(name=KEY, config_operation=APPEND, value=replicas(5_000))
    change = AlterableConfig(name="retention.ms", config_operation=SET, value="5")
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=2, resource_name="t", configs=[append]),
            AlterConfigsResource(resource_type=2, resource_name="u", configs=[change]),
        ]
    )
    codes = [answer.error_code for answer in done(harness.controller.ask(request)).responses]
    assert codes == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert harness.image.configs.of_topic("u") == {"retention.ms": "5"}


def test_a_request_is_validated_as_it_would_be_decided(harness: ControllerHarness) -> None:
    assert incremental(harness, 2, "t", (KEY, SET, replicas(0))) == ErrorCode.NONE
    code = incremental(harness, 2, "t", (KEY, APPEND, replicas(5_000)), validate_only=True)
    assert code == ErrorCode.INVALID_CONFIG
