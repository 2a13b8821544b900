"""A replica that leaves this broker while its log cannot be used leaves no log behind."""

from __future__ import annotations

import os

import pytest

from ottla.wire.messages import metadata_records as r
from tests.support.data_path import DataPath, batch


@pytest.mark.parametrize("is_recovered", [False, True])
def test_a_replica_is_reassigned_away_before_its_damaged_log_is_back(node: DataPath, is_recovered: bool) -> None:
    node.logs.on_log_failure.append(node.replicas._on_log_failed)
    topic_id = node.create_topic("t")
    node.produce("t", batch(*"abc"))
    node.settle()
    node.replicas.find("t", 0).log.files.failures.fail_log("a file is short")
    if is_recovered:
        node.settle()
    node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=[2], isr=[2], leader=2))
    for _ in range(120):
        node.virtual.scheduler.advance(1_000)
        node.settle()
    assert node.logs.partitions() == []
    assert "t-0" not in os.listdir(node.directory)
    back = r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=[2, 1], isr=[2], adding_replicas=[1])
    node.commit(back)
    assert node.replicas.find("t", 0).log.log_end_offset == 0, "a new replica begins with an empty log"
