"""A giant fetch whose session was replaced: it does not take quiet partitions away from the follower's new session."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ottla.broker.apis import fetch
from ottla.model.deferred import Deferred
from ottla.replica import giant_fetch
from ottla.wire.messages.fetch import FetchResponse
from tests.support.data_path import DataPath, unpacked, values

VERSION = 12
PARTITIONS = 6
LAST = PARTITIONS - 1


@pytest.fixture(autouse=True)
def small_is_giant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.handler, "PARTITIONS_PER_TURN_MAX", 4)
    monkeypatch.setattr(giant_fetch, "PARTITIONS_PER_SLICE", 2)


def begin(node: DataPath, indexes: Any, **fields: Any) -> Deferred[FetchResponse]:
    response = node.fetch("t", dict.fromkeys(indexes, 0), version=VERSION, replica_id=2, **fields)
    return Deferred.of(response).then(partial(unpacked, version=VERSION))


@pytest.mark.parametrize("turn", range(8))
def test_news_reach_the_new_session_of_a_follower_at_once(node: DataPath, turn: int) -> None:
    node.create_topic("t", PARTITIONS, replicas=(1, 2))
    everything = range(PARTITIONS)
    opened = begin(node, everything, session_epoch=0)
    node.virtual.scheduler.run()
    former = opened.result().session_id
    begin(node, everything, session_id=former, session_epoch=1)
    node.virtual.scheduler.run()
    # All partitions are quiet: the sweep over the session is a giant fetch. Its follower reconnects meanwhile.
    node.virtual.scheduler.advance(6_000)
    begin(node, (), session_id=former, session_epoch=2, max_wait_ms=500)
    for _ in range(turn):
        node.virtual.scheduler.run_turn()
    session_id = begin(node, (LAST,), session_id=former, session_epoch=0).result().session_id
    assert begin(node, (LAST,), session_id=session_id, session_epoch=1).result().responses == []
    poll = begin(node, (), session_id=session_id, session_epoch=2, max_wait_ms=500)
    node.virtual.scheduler.run()
    assert not poll.done
    node.append("t", "late", index=LAST)
    node.virtual.scheduler.run()
    assert poll.done, "the follower does not get the record"
    assert values(poll.result().responses[0].partitions[0].records) == ["late"]
