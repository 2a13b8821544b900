"""Snapshots from the leader on a disk that is slow, or fails for a moment."""

from __future__ import annotations

import errno

import pytest

from ottla.model.deferred import Deferred
from ottla.quorum import local_log
from ottla.quorum.log import MetadataLogSettings
from ottla.quorum.snapshots import PART_SUFFIX, Snapshot
from ottla.quorum.voter_log import VoterLog
from tests.unit.quorum.test_observer import Cluster
from tests.unit.quorum.test_raft_nodes import Quorum


def quorum_with_one_behind() -> tuple[Quorum, VoterLog]:
    """The log of a voter that needs a snapshot of the leader."""
    quorum = Quorum(3)
    quorum.run(500)
    behind = quorum.followers()[0].own.node_id
    quorum.stop(behind)
    for number in range(3):
        quorum.append(b"entry %d" % number)
        for replica in quorum.replicas.values():
            quorum.run(100)
            log = replica.log
            log.write_snapshot(end_offset=log.committed_offset, epoch=1, values=[b"all"], last_contained_timestamp_ms=0)
            log._journal.roll()
            log._delete_obsolete(quorum.virtual.clock.now_ms())
    return quorum, quorum.start(behind).log


@pytest.mark.parametrize("seconds", [1.0, 3.0])
def test_a_check_may_take_longer_than_the_fetch_timeout(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """After two seconds without a fetch the voter asks for votes, and then fetches from the same leader again."""
    quorum, log = quorum_with_one_behind()
    checks = 0

    def check_slowly() -> Deferred[Snapshot]:
        nonlocal checks
        checks += 1
        assert log._incoming is not None
        identity, file = log._incoming
        assert file is not None
        log._incoming = identity, None
        path, checked = log.snapshot_path(identity) + PART_SUFFIX, Deferred[Snapshot]()

        def finish() -> None:
            checked.resolve(local_log._finish_file(quorum.files, file, path))

        quorum.virtual.scheduler.call_later(seconds, finish)
        return checked

    monkeypatch.setattr(log, "check_snapshot", check_slowly)
    quorum.run(20_000)
    assert log.start_offset >= quorum.leader().log.start_offset > 0
    assert checks == 1


@pytest.mark.parametrize("failing", ["rename", "sync"])
def test_a_disk_that_fails_for_a_moment_does_not_stop_the_observer(failing: str) -> None:
    """The snapshot cannot be finished, and its partial file cannot be removed."""
    cluster = Cluster()
    cluster.settings = MetadataLogSettings(segment_bytes=1, retention_bytes=1)
    leading = cluster.start_leader()
    for number in range(20):
        leading.append([b"entry %d" % number])
        if number in (8, 16):
            leading.write_snapshot(
                end_offset=leading.committed_offset, epoch=1, values=[b"state"], last_contained_timestamp_ms=5
            )
    workers = cluster.virtual.workers
    workers.immediate = False
    _, log = cluster.start_observer()
    for operation in (failing, "remove"):
        error = OSError(errno.EROFS, "read-only file system")
        cluster.files.fail_next(operation, error, path_contains="/observer")
    workers.run_all()
    workers.immediate = True
    cluster.run(60_000)
    assert log.start_offset == 18
