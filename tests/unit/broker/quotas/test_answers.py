"""Every response can carry a throttle time, in all versions that have the field."""

from __future__ import annotations

import pytest

from ottla.broker.apis import HANDLERS
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode, encode

# Responses of these APIs have no throttle time in any version, as in Apache Kafka.
WITHOUT = {
    "SaslHandshake",
    "SaslAuthenticate",
    "WriteTxnMarkers",
    "DescribeQuorum",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
}
# Versions 0 to 2 of Produce are announced for the sake of old clients, but not served.
SERVED_SINCE = {0: 3}


@pytest.mark.parametrize("api_key", sorted(HANDLERS))
def test_a_throttle_time_can_be_told(api_key: int) -> None:
    spec = API_SPECS[ApiKey(api_key)]
    throttle_times_ms = []
    for version in range(SERVED_SINCE.get(api_key, HANDLERS[api_key].min_version), HANDLERS[api_key].max_version + 1):
        response = spec.response_class()
        if not hasattr(response, "throttle_time_ms"):
            assert spec.name in WITHOUT
            return
        response.throttle_time_ms = 70
        again, _ = decode(spec.response_class, memoryview(encode(response, version)), version)
        throttle_times_ms.append(again.throttle_time_ms)
    # Old versions have no throttle time and are encoded without it; the newest version has the field.
    assert throttle_times_ms == sorted(throttle_times_ms)
    assert throttle_times_ms[-1] == 70
