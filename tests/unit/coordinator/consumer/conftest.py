"""A coordinator in a cluster that has the consumer protocol switched on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.wire.messages.metadata_records import FeatureLevelRecord
from tests.support.group_path import GroupPath


@pytest.fixture
def make_consumer(make: Callable[..., GroupPath]) -> Callable[..., GroupPath]:
    """Like `make`; assignments are computed as soon as they are wanted unless said otherwise."""

    def make_path(**properties: str) -> GroupPath:
        path = make(**{"group_consumer_assignment_interval_ms": "0", **properties})
        path.commit(FeatureLevelRecord(name="group.version", feature_level=1))
        return path

    return make_path


@pytest.fixture
def path(make_consumer: Callable[..., GroupPath]) -> GroupPath:
    return make_consumer()
