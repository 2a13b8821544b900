"""A topic with LogAppendTime and checked schemas: a schema that is asked for does not refuse its batch."""

from __future__ import annotations

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.records.header import read_header
from ottla.replica.schema_checks import SchemaChecks
from tests.support.data_path import DataPath, batch


def test_a_batch_with_append_time_waits_for_its_schema(node: DataPath) -> None:
    node.create_topic("t", confluent_value_schema_validation="true", message_timestamp_type="LogAppendTime")
    checks = SchemaChecks(node.virtual.world, lambda _: b'["t-value"]')
    node.broker.replicas.validations.use_registry(checks)
    records = batch("\0\0\0\0\1x")
    waiting = node.produce("t", records)
    node.settle()
    assert isinstance(waiting, Deferred)
    answer = waiting.result().responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert read_header(records).uses_append_time
