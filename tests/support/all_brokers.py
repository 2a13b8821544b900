"""Waiting until all brokers of a cluster have replayed the changes so far.

A change is answered when the controller has committed it, and brokers replay it later: a request to another broker may
get an answer from before the change. All brokers replay changes in the same order. So this module makes one more
change, to a setting of an unused group. A broker that shows this setting has replayed all earlier changes, too.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from ottla.metadata.image import ResourceType
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw_client import RawClient

__all__ = ["until_all_know"]

GROUP = "known-to-all-brokers"
SETTING = "consumer.heartbeat.interval.ms"
WAIT_SECONDS_MAX = 60.0

# Values that the setting may have on every broker.
_values = itertools.cycle(range(5_000, 15_000))


def until_all_know(addresses: Sequence[str]) -> None:
    """Returns when all of these brokers have replayed every change that any of them has answered before."""
    value = str(next(_values))
    configs = [AlterableConfig(name=SETTING, value=value)]
    resource = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=GROUP, configs=configs)
    with RawClient(addresses[0]) as client:
        (answer,) = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert not answer.error_code, answer
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    for address in addresses:
        with RawClient(address) as client:
            while _setting_of(client) != value:
                assert time.monotonic() < deadline, f"{address} has not heard of {SETTING}={value}"


def _setting_of(client: RawClient) -> str | None:
    resource = DescribeConfigsResource(
        resource_type=ResourceType.GROUP, resource_name=GROUP, configuration_keys=[SETTING]
    )
    (result,) = client.call(DescribeConfigsRequest(resources=[resource]), 4).results
    return next((entry.value for entry in result.configs), None)
