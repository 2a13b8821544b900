"""The progress of every partition of a flow."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ottla.client.admin.groups import Groups
from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.admin.topics import Topics
from ottla.client.cluster import Cluster
from ottla.mirror.copying.pairs import Pair, find_pairs
from ottla.mirror.settings import FlowSettings, OffsetMode
from ottla.model.errors import KafkaError

__all__ = ["Progress", "find_progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The target has the records of the source below `position`; the source ends at `end`."""

    pair: Pair
    position: int
    end: int

    @property
    def missing(self) -> int:
        return max(0, self.end - self.position)


async def find_progress(
    flow: FlowSettings, source: Cluster, target: Cluster, *, is_complete: bool = False
) -> list[Progress]:
    """The progress of all partitions that exist on both sides.

    Partitions with an unknown end are left out; with `is_complete` an unknown end raises KafkaError instead.
    """
    topics, copies = await asyncio.gather(Topics(source).all(), Topics(target).all())
    pairs = find_pairs(flow, topics, copies, worker=0, workers=1)
    is_exact = flow.offset_mode is OffsetMode.EXACT
    # The ends that a consumer can read: records of open transactions are translated only after they are committed.
    ends = await Offsets(source).find(dict.fromkeys([pair.source for pair in pairs], LATEST), committed=not is_exact)
    for pair in pairs if is_complete else ():
        if isinstance(error := ends[pair.source], KafkaError):
            raise KafkaError(error.code, f"{pair.source}: {error.message}")
    if is_exact:
        copy_ends = await Offsets(target).find(dict.fromkeys([pair.target for pair in pairs], LATEST))
        positions = {
            place: copy_end.offset for place, copy_end in copy_ends.items() if not isinstance(copy_end, KafkaError)
        }
    else:
        committed = await Groups(target).offsets(flow.group_id, [pair.target for pair in pairs])
        positions = {place: entry.offset for place, entry in committed.items()}
    return [
        Progress(pair, positions.get(pair.target, 0), end.offset)
        for pair in pairs
        if not isinstance(end := ends[pair.source], KafkaError)
    ]
