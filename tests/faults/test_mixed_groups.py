"""Groups of `ottla.client`, librdkafka and Java, whose members are killed and started again, for both protocols.

The cluster is a node of Ottla, and then one of Apache Kafka: the guarantees of the client hold with both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.brokers import Broker, OttlaNode, QuickKafka
from tests.support.java import unavailable_reason
from tests.support.mixed_group import GROUP_SETTINGS, STRATEGIES, check_mixed_group

pytestmark = [pytest.mark.faults, pytest.mark.timeout(0)]

# A kill, the restart and the rebalances take about this long.
KILL_SECONDS = 5.0


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if reason := unavailable_reason():
        pytest.skip(f"Java tests: {reason}")
    directory = tmp_path_factory.mktemp("broker")
    node = (
        OttlaNode(directory, GROUP_SETTINGS)
        if request.param == "ottla"
        else QuickKafka(directory, GROUP_SETTINGS, heap="512m")
    )
    with node:
        yield node


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_killed_members_leave_no_gap(
    broker: Broker, strategy: str, tmp_path: Path, faults_seconds: float, faults_seed: int
) -> None:
    check_mixed_group(
        broker.bootstrap,
        strategy,
        ["ottla", "ottla", "confluent", "java"],
        kills=max(3, round(faults_seconds / KILL_SECONDS)),
        directory=tmp_path,
        random=Random(f"{faults_seed}/{strategy}"),
    )
