"""A start that cannot begin an interrupted move again."""

from __future__ import annotations

import errno

import pytest

from ottla.model.ids import TopicPartition
from tests.unit.storage.helpers import offsets_of
from tests.unit.storage.test_mover import names, started

PARTITION = TopicPartition("t", 0)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_start_that_cannot_begin_a_move_again_serves_the_original(code: int) -> None:
    node = started()
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run_turn()
    assert names(node, "/d2", "-future")
    node.kill()
    node.files.fail_next("mkdir", OSError(code, "refused"), path_contains="-future")
    node.start()
    log = node.logs.get(PARTITION)
    assert log is not None
    assert log.directory == "/d1/t-0"
    log.update_high_watermark(log.log_end_offset)
    assert offsets_of(log) == list(range(50))
    assert node.logs.directories[1].is_offline == (code == errno.EIO)
