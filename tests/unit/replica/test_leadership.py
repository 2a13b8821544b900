"""A leader's state of its followers."""

from __future__ import annotations

from ottla.replica.leadership import NEVER_MS, FollowerProgress, LeaderState, PendingIsr


def leader(*, replicas: tuple[int, ...] = (1, 2, 3), isr: tuple[int, ...] = (1, 2, 3)) -> LeaderState:
    return LeaderState(node_id=1, epoch=4, epoch_start_offset=10, replicas=replicas, isr=isr)


def fetch(state: LeaderState, node_id: int, offset: int, *, end: int = 100, now_ms: int = 1) -> None:
    state.followers[node_id].on_fetch(
        fetch_offset=offset, log_start_offset=offset // 2, leader_end_offset=end, now_ms=now_ms, replica_epoch=-1
    )


def test_the_high_watermark_is_what_all_in_sync_replicas_hold() -> None:
    state = leader()
    assert state.high_watermark(100) == -1
    fetch(state, 2, 50)
    fetch(state, 3, 70)
    assert state.high_watermark(100) == 50
    state.assign(replicas=(1, 2, 3), isr=(1, 3))
    assert state.high_watermark(100) == 70
    state.assign(replicas=(1, 2, 3), isr=(1,))
    assert state.high_watermark(100) == 100


def test_while_a_change_is_pending_the_high_watermark_counts_the_members_of_both_sets() -> None:
    """The controller may already have made the change: then the joining replica is eligible for election."""
    state = leader(isr=(1, 2))
    fetch(state, 2, 70)
    fetch(state, 3, 50)
    assert state.high_watermark(100) == 70
    state.propose_isr(PendingIsr((1, 2, 3), is_growth=True))
    assert state.high_watermark(100) == 50
    state.withdraw_isr()
    state.propose_isr(PendingIsr((1,), is_growth=False))
    assert state.high_watermark(100) == 70


def test_a_leader_alone_commits_what_it_writes() -> None:
    state = leader(replicas=(1,), isr=(1,))
    assert state.is_alone
    assert state.high_watermark(7) == 7


def test_the_low_watermark_counts_live_replicas() -> None:
    state = leader()
    # The start of its log is unknown.
    assert state.low_watermark(40) == -1
    assert state.low_watermark(40, lambda _: False) == 40
    fetch(state, 2, 50)
    fetch(state, 3, 60)
    assert state.low_watermark(40) == 25
    assert state.low_watermark(40, lambda node_id: node_id == 3) == 30


def test_progress_survives_a_new_in_sync_set_but_not_a_new_assignment() -> None:
    state = leader()
    fetch(state, 2, 50)
    state.assign(replicas=(1, 2, 4), isr=(1, 2))
    assert state.followers[2].log_end_offset == 50
    assert set(state.followers) == {2, 4}
    assert state.replica_count == 3


class TestCaughtUp:
    def test_asking_for_the_end(self) -> None:
        progress = FollowerProgress(2)
        progress.on_fetch(fetch_offset=5, log_start_offset=0, leader_end_offset=5, now_ms=10, replica_epoch=-1)
        assert progress.caught_up_ms == 10

    def test_asking_for_what_was_the_end_at_the_last_fetch(self) -> None:
        progress = FollowerProgress(2)
        progress.on_fetch(fetch_offset=3, log_start_offset=0, leader_end_offset=5, now_ms=10, replica_epoch=-1)
        progress.on_fetch(fetch_offset=5, log_start_offset=0, leader_end_offset=9, now_ms=20, replica_epoch=-1)
        assert progress.caught_up_ms == 10

    def test_never_at_the_end(self) -> None:
        progress = FollowerProgress(2)
        progress.on_fetch(fetch_offset=3, log_start_offset=0, leader_end_offset=5, now_ms=10, replica_epoch=-1)
        progress.on_fetch(fetch_offset=4, log_start_offset=0, leader_end_offset=9, now_ms=20, replica_epoch=-1)
        assert progress.caught_up_ms == NEVER_MS
