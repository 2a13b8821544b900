"""Calls about many ids: a failed id does not affect the results of other ids."""

from __future__ import annotations

import asyncio

from ottla.client.admin.each import PARALLEL_MAX, ask_each
from ottla.client.errors import ConnectionLost, TimedOut
from ottla.model.errors import ErrorCode, KafkaError

FAILURES = {
    "unknown": KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "no such group"),
    "cut": ConnectionLost("gone"),
    "slow": TimedOut("late"),
}


def test_every_id_has_its_own_error() -> None:
    async def ask(group_id: str) -> str:
        if group_id in FAILURES:
            raise FAILURES[group_id]
        return group_id.upper()

    answers = asyncio.run(ask_each(["a", "slow", "cut", "a", "unknown", "b"], ask))
    codes = {group_id: answer.code for group_id, answer in answers.items() if isinstance(answer, KafkaError)}
    assert {group_id: answer for group_id, answer in answers.items() if group_id not in codes} == {"a": "A", "b": "B"}
    assert codes == {
        "slow": ErrorCode.REQUEST_TIMED_OUT,
        "cut": ErrorCode.NETWORK_EXCEPTION,
        "unknown": ErrorCode.GROUP_ID_NOT_FOUND,
    }


def test_requests_at_the_same_time_are_bounded() -> None:
    running, most = 0, 0

    async def ask(_: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    asyncio.run(ask_each(map(str, range(3 * PARALLEL_MAX)), ask))
    assert most == PARALLEL_MAX
