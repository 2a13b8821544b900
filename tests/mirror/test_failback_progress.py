"""A failback is not complete while the end of a partition at the target is unknown."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

import ottla.mirror.progress as progress
from ottla.mirror.copying.pairs import Pair
from ottla.mirror.settings import OffsetMode
from ottla.mirror.switching.failback import Failback
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition


def test_a_partition_without_a_leader_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [TopicPartition("t", 0), TopicPartition("t", 1)]

    class Topics:
        def __init__(self, _: Any) -> None: ...

        async def all(self) -> Any:
            return {}

    class Offsets:
        def __init__(self, _: Any) -> None: ...

        async def find(self, *_: Any, **__: Any) -> Any:
            return {places[0]: SimpleNamespace(offset=10), places[1]: KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)}

    class Groups:
        def __init__(self, _: Any) -> None: ...

        async def offsets(self, *_: Any, **__: Any) -> Any:
            # No record of the second partition has come back yet.
            return {places[0]: SimpleNamespace(offset=10), places[1]: SimpleNamespace(offset=0)}

    monkeypatch.setattr(progress, "Topics", Topics)
    monkeypatch.setattr(progress, "Offsets", Offsets)
    monkeypatch.setattr(progress, "Groups", Groups)
    monkeypatch.setattr(progress, "find_pairs", lambda *a, **k: [Pair(place, place, "a", "b") for place in places])
    failback = object.__new__(Failback)
    failback._source = failback._target = None
    back = SimpleNamespace(offset_mode=OffsetMode.TRANSLATED, group_id="g")
    with pytest.raises(KafkaError):
        asyncio.run(failback._has_returned(back))
