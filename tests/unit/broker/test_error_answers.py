"""Every part of a failed request gets the error code, also if the response has another structure than the request."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from ottla.broker.apis import HANDLERS, load
from ottla.broker.error_responses import generic_error_response
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.messages import alter_configs, create_partitions, delete_topics, incremental_alter_configs

ERROR = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too late")


@pytest.mark.parametrize(
    ("module", "request_message"),
    [
        ("delete_topics", delete_topics.DeleteTopicsRequest(topic_names=["a"])),
        ("delete_topics", delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="a")])),
        (
            "create_partitions",
            create_partitions.CreatePartitionsRequest(topics=[create_partitions.CreatePartitionsTopic(name="a")]),
        ),
        (
            "alter_configs",
            alter_configs.AlterConfigsRequest(resources=[alter_configs.AlterConfigsResource(resource_name="a")]),
        ),
        (
            "incremental_alter_configs",
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[incremental_alter_configs.AlterConfigsResource(resource_name="a")]
            ),
        ),
    ],
)
def test_every_part_of_the_request_is_told_the_error(module: str, request_message: Any) -> None:
    answer = import_module(f"ottla.broker.apis.{module}").API.error_response(request_message, 1, ERROR)
    rows = answer.results if hasattr(answer, "results") else answer.responses
    assert [(row.error_code, row.error_message) for row in rows] == [(ErrorCode.REQUEST_TIMED_OUT, "too late")]
    assert "a" in (getattr(rows[0], "name", None), getattr(rows[0], "resource_name", None))


def filled(message_class: Any, module: Any) -> Any:
    """A message in which every array has one element."""
    message = message_class()
    for name, kind, *_ in message_class.FIELDS:
        if kind.startswith("["):
            element = getattr(module, kind[1:-1], None)
            plain = "a" if kind == "[string]" else Uuid.ZERO if kind == "[uuid]" else 0
            setattr(message, name, [plain if element is None else filled(element, module)])
    return message


def codes_of(message: Any) -> set[int]:
    codes: set[int] = set()
    for name, *_ in type(message).FIELDS:
        value = getattr(message, name)
        if name.endswith("error_code"):
            codes.add(value)
        for element in value if isinstance(value, list) else ():
            if hasattr(type(element), "FIELDS"):
                codes |= codes_of(element)
    return codes


@pytest.mark.parametrize("api_key", sorted(HANDLERS))
def test_no_error_gets_lost(api_key: int) -> None:
    spec = API_SPECS[ApiKey(api_key)]
    request = filled(spec.request_class, import_module(spec.request_class.__module__))
    handler = load(api_key, HANDLERS[api_key])
    version = HANDLERS[api_key].max_version
    if api_key == ApiKey.PRODUCE:
        # A request without a response gets no error response.
        request.acks = 1
    # Some responses translate other error codes.
    error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if handler.error_response is not None:
        answer = handler.error_response(request, version, error)
    else:
        answer = generic_error_response(api_key, request, error)
    assert ErrorCode.UNKNOWN_SERVER_ERROR in codes_of(answer), answer
