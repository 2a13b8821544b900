"""DescribeLogDirs of a cordoned directory, by level of `metadata.version`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import describe_log_dirs
from ottla.model.slices import finish
from tests.unit.storage.logs_node import Node


@pytest.mark.parametrize(("level", "is_cordoned"), [(29, False), (30, True)])
def test_a_directory_is_cordoned_from_4_3_iv0_on(level: int, is_cordoned: bool) -> None:
    """Below that level the controller places replicas in it (`ReplicaManager.describeLogDirs` of Apache Kafka 4.3)."""
    node = Node("/d1", "/d2", cordoned_log_dirs="/d2")
    node.start()
    image = SimpleNamespace(features=SimpleNamespace(metadata_version=level))
    broker: Any = SimpleNamespace(config=node.logs.config, logs=node.logs, metadata=SimpleNamespace(image=image))
    response = finish(describe_log_dirs._describe(None, broker))
    assert [(result.log_dir, result.is_cordoned) for result in response.results] == [
        ("/d1", False),
        ("/d2", is_cordoned),
    ]
