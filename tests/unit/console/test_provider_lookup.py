"""An identity provider that is down is asked seldom, however many logins begin."""

from __future__ import annotations

import asyncio

import pytest

from ottla.console import provider_lookup
from ottla.console.answers import ApiError
from ottla.console.provider_lookup import PAUSE_SECONDS_MAX, ProviderLookup


class Provider:
    def __init__(self) -> None:
        self.asked = 0
        self.is_down = True
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.now = 0.0

    async def read(self) -> str:
        self.asked += 1
        await self.may_answer.wait()
        if self.is_down:
            raise ApiError(502, "UPSTREAM", "The identity provider does not answer.")
        return "found"

    def lookup(self) -> ProviderLookup[str]:
        return ProviderLookup(self.read, clock=lambda: self.now)


async def hint_of_failure(lookup: ProviderLookup[str]) -> str | None:
    with pytest.raises(ApiError, match="does not answer") as caught:
        await lookup.get()
    assert caught.value.status == 502
    return caught.value.hint


def test_many_logins_wait_for_one_lookup() -> None:
    async def scenario() -> None:
        provider = Provider()
        provider.is_down = False
        provider.may_answer.clear()
        lookup = provider.lookup()
        logins = [asyncio.ensure_future(lookup.get()) for _ in range(100)]
        await asyncio.sleep(0)
        # A browser that goes away leaves the lookup to the others.
        logins.pop().cancel()
        provider.may_answer.set()
        assert await asyncio.gather(*logins) == ["found"] * 99
        assert await lookup.get() == "found"
        assert provider.asked == 1

    asyncio.run(scenario())


def test_failures_are_followed_by_growing_pauses() -> None:
    async def scenario() -> None:
        provider = Provider()
        lookup = provider.lookup()
        for number, pause in enumerate((1, 2, 4, 8, 16, PAUSE_SECONDS_MAX, PAUSE_SECONDS_MAX), start=1):
            assert await hint_of_failure(lookup) is None
            assert await hint_of_failure(lookup) == f"It is asked again in {pause:.0f} s."
            provider.now += pause - 0.5
            assert await hint_of_failure(lookup) == "It is asked again in 1 s."
            assert provider.asked == number
            provider.now += 0.5
        provider.is_down = False
        assert await lookup.get() == "found"

    asyncio.run(scenario())


def test_the_longest_pause_stays_after_many_failures() -> None:
    async def scenario() -> None:
        provider = Provider()
        lookup = provider.lookup()
        for _ in range(1_100):
            assert await hint_of_failure(lookup) is None
            provider.now += PAUSE_SECONDS_MAX
        assert await hint_of_failure(lookup) is None
        assert await hint_of_failure(lookup) == f"It is asked again in {PAUSE_SECONDS_MAX:.0f} s."
        assert provider.asked == 1_101

    asyncio.run(scenario())


def test_a_lookup_that_hangs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_lookup, "LOOKUP_SECONDS_MAX", 0.01)

    async def scenario() -> None:
        provider = Provider()
        provider.may_answer.clear()
        lookup = provider.lookup()
        assert await hint_of_failure(lookup) is None
        assert await hint_of_failure(lookup) == "It is asked again in 1 s."
        assert provider.asked == 1

    asyncio.run(scenario())
