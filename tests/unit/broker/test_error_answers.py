"""Requests whose answers have another shape than they have still learn of an error, each of their parts."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from ottla.model.errors import ErrorCode, KafkaError
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
    answer = import_module(f"ottla.broker.apis.{module}").error_response(request_message, 1, ERROR)
    rows = answer.results if hasattr(answer, "results") else answer.responses
    assert [(row.error_code, row.error_message) for row in rows] == [(ErrorCode.REQUEST_TIMED_OUT, "too late")]
    assert "a" in (getattr(rows[0], "name", None), getattr(rows[0], "resource_name", None))
