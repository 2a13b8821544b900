"""A snapshot of the leader for whose file there is no room."""

from __future__ import annotations

import errno

import pytest

from tests.unit.quorum.test_snapshot_disks import quorum_with_one_behind


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_voter_that_cannot_create_the_file_of_a_snapshot_tries_again(code: int) -> None:
    quorum, log = quorum_with_one_behind()
    behind = quorum.replicas[log.node_id]
    stopped: list[BaseException] = []
    behind.on_fatal = stopped.append
    quorum.files.fail_next("open", OSError(code, "no room"), path_contains=".checkpoint.part")
    quorum.run(20_000)
    assert stopped == []
    assert not behind.is_closed
    assert log.start_offset >= quorum.leader().log.start_offset > 0
