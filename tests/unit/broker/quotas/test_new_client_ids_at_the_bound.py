"""At the bound of meters, new client ids do not cause a search of all meters for every request."""

from __future__ import annotations

from ottla.broker.quotas.allowance import Resolution
from ottla.broker.quotas.meters import Meters, RateMeter
from ottla.broker.quotas.rates import WindowedRate
from ottla.broker.quotas.table import Assigned

METERS = 100


class CountingRate(WindowedRate):
    searched = 0

    def is_unused(self, now: float) -> bool:
        CountingRate.searched += 1
        return super().is_unused(now)


def rate_meter(assigned: Assigned, now: float) -> RateMeter:
    return RateMeter(assigned, CountingRate(window_seconds=1.0, window_count=11), now)


def used(meters: Meters[RateMeter], client_id: str, now: float) -> RateMeter:
    meter = meters.of("alice", client_id, now)
    assert meter is not None
    meter.record(1.0, now)
    return meter


def test_meters_in_use_are_searched_once_a_second() -> None:
    meters: Meters[RateMeter] = Meters("producer_byte_rate", rate_meter, Resolution(), meters_max=METERS)
    meters.change({(("client-id", None),): {"producer_byte_rate": 1e6}})
    for number in range(METERS):
        used(meters, f"c{number}", 10.0)
    CountingRate.searched = 0
    shared = {id(used(meters, f"d{number}", 10.0)) for number in range(1_000)}
    assert len(shared) == 1
    assert CountingRate.searched <= 2 * METERS
    # Idle meters make room again, also while new client ids keep coming.
    for number in range(100):
        used(meters, f"e{number}", 10.0 + number / 5)
    assert used(meters, "late", 31.0).client_id == "late"
