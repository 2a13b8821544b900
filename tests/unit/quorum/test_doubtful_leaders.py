"""How an observer handles a leader that knows too little, or sends impossible answers."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages import fetch as f
from tests.unit.quorum.test_observer import Cluster, entries


def test_a_leader_that_does_not_know_what_is_committed_takes_nothing_back() -> None:
    """A newly elected leader has a high watermark of -1."""
    cluster = Cluster()
    leading = cluster.start_leader()
    leading.append([b"one"])
    observer, log = cluster.start_observer()
    observer.close()
    log.close()

    def know_nothing(response: Any) -> Any:
        response.responses[0].partitions[0].high_watermark = -1
        return response

    cluster.change = know_nothing
    cluster.leader_is_old = True
    observer, log = cluster.start_observer()
    cluster.run(1000)
    assert (log.committed_offset, cluster.replaced, observer.caught_up.done) == (2, [], False)
    cluster.change = lambda response: response
    cluster.run(1000)
    assert (log.committed_offset, cluster.replaced, observer.caught_up.done) == (2, [], True)


def test_a_log_that_cannot_be_cut_off_is_not_asked_about_all_the_time() -> None:
    cluster = Cluster()
    leading = cluster.start_leader()
    leading.append([b"one"])

    def diverge(response: Any) -> Any:
        response.responses[0].partitions[0].diverging_epoch = f.EpochEndOffset(epoch=9, end_offset=9)
        return response

    cluster.change = diverge
    _, log = cluster.start_observer()
    cluster.run(10_000)
    assert len(cluster.requests) < 20
    cluster.change = lambda response: response
    cluster.run(2000)
    assert entries(log) == entries(leading)
