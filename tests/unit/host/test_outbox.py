"""The regions that an outbox holds in memory, and those that workers read for it."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.host.files import OsFiles
from ottla.host.outbox import GATHERED_BYTES_MAX, REGION_AHEAD, REGION_COPIED_MAX, REGION_RUN, Outbox
from ottla.model.ports import FileRegion
from ottla.wire.connection.outgoing import Outgoing

PAGE = 4096


class PartlyCached:
    """A file of which some pages are on disk only."""

    path = "segment"

    def __init__(self, *, missing_start: int, missing_end: int, size: int) -> None:
        self.missing_start, self.missing_end, self.size = missing_start, missing_end, size

    def read(self, _position: int, length: int) -> bytes:
        return bytes(length)

    def read_ahead(self, position: int, length: int) -> None:
        self.ahead = position, length

    def read_nowait(self, position: int, length: int) -> bytes | None:
        if self.missing_start <= position < self.missing_end:
            return None
        return bytes(length)


@pytest.mark.parametrize("size", [REGION_COPIED_MAX + PAGE, 3 * REGION_COPIED_MAX, REGION_RUN, 3 * REGION_RUN])
def test_what_is_not_in_memory_is_read_by_a_worker_though_its_ends_are(size: int) -> None:
    # The search for the region's boundaries has read these pages.
    file: Any = PartlyCached(missing_start=PAGE, missing_end=min(size, REGION_RUN) - PAGE, size=size)
    submitted: list[tuple[int, int]] = []

    def submit(work: Any, _: Any, position: int, length: int) -> Any:
        submitted.append((position, length))
        assert work(file, position, length) == length
        return SimpleNamespace(when_done=lambda _: None)

    reads = SimpleNamespace(submit=submit)
    world: Any = SimpleNamespace(workers=SimpleNamespace(lane=lambda _: reads))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        outgoing = Outgoing()
        outbox = Outbox(loop=None, world=world, stream=ours, outgoing=outgoing, owner=None)  # type: ignore[arg-type]
        outgoing.put([FileRegion(file, 0, size)])
        assert not outbox.flush()
    run = min(size, REGION_RUN)
    assert submitted == [(0, run)]
    # The disk reads ahead while the run is sent, because such a client usually reads the rest of the log.
    assert file.ahead == (run, REGION_AHEAD)


def test_small_regions_are_not_all_read_before_the_first_is_sent(tmp_path: Path) -> None:
    file = OsFiles().open(str(tmp_path / "segment"))
    file.append(b"x" * REGION_COPIED_MAX)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    waiting: list[Any] = []
    waits: list[float] = []
    owner: Any = SimpleNamespace(outbox_waited=waits.append)
    loop: Any = SimpleNamespace(
        add_writer=lambda *call: waiting.append(call), remove_writer=lambda *_: waiting.clear(), time=time.monotonic
    )
    outgoing = Outgoing()
    outbox = Outbox(loop=loop, world=None, stream=ours, outgoing=outgoing, owner=owner)  # type: ignore[arg-type]
    count = 100
    outgoing.put([FileRegion(file, 0, REGION_COPIED_MAX) for _ in range(count)])
    received = 0
    assert not outbox.flush()
    while received < count * REGION_COPIED_MAX:
        assert outgoing.unsent_bytes <= GATHERED_BYTES_MAX + REGION_COPIED_MAX
        received += len(theirs.recv(1 << 20))
        if waiting:
            outbox._flush()
    assert not outgoing.parts
    assert waits
    assert sum(waits) > 0, "how long the socket was waited for is told"
    ours.close()
    theirs.close()
