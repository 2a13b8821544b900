"""Members of `ottla.client` and of librdkafka share a group, are killed, and come back.

`tests/faults/test_mixed_groups.py` has Java's members as well, more kills, and Apache Kafka beside Ottla.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import ottla.testing
from tests.support.mixed_group import GROUP_SETTINGS, check_mixed_group


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with ottla.testing.cluster(settings=GROUP_SETTINGS) as running:
        yield running.bootstrap


@pytest.mark.parametrize("strategy", ["cooperative", "consumer"])
def test_killed_members_leave_no_gap(bootstrap: str, strategy: str, tmp_path: Path) -> None:
    check_mixed_group(bootstrap, strategy, ["ottla", "confluent"], kills=2, directory=tmp_path, random=Random(strategy))
