"""What an outbox holds in memory."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ottla.host.files import OsFiles
from ottla.host.outbox import GATHERED_BYTES_MAX, REGION_COPIED_MAX, Outbox
from ottla.model.ports import FileRegion


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
    outbox = Outbox(loop=loop, world=None, connected_socket=ours, owner=owner)  # type: ignore[arg-type]
    count = 100
    outbox.put([FileRegion(file, 0, REGION_COPIED_MAX) for _ in range(count)])
    received = 0
    assert not outbox.flush()
    while received < count * REGION_COPIED_MAX:
        assert outbox.unsent_bytes <= GATHERED_BYTES_MAX + REGION_COPIED_MAX
        received += len(theirs.recv(1 << 20))
        if waiting:
            outbox._flush()
    assert outbox.is_empty
    assert waits
    assert sum(waits) > 0, "how long the socket was waited for is told"
    ours.close()
    theirs.close()
