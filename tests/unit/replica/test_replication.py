"""Followers: from a leader's log to an equal one, whatever lay in it before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from ottla.model.errors import ErrorCode
from ottla.replica import follower_fetch_loop, follower_fetch_session
from ottla.storage.errors import DiskFull, LogDirectoryOffline
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.fetch import FetchRequest
from tests.support.replica_cluster import ReplicaCluster, ReplicaNode, listed

Make = Callable[..., ReplicaCluster]


def fetches(cluster: ReplicaCluster, source: int = 2) -> list[FetchRequest]:
    return [
        request for sender, _, request in cluster.requests if sender == source and isinstance(request, FetchRequest)
    ]


def failed_partitions(node: ReplicaNode) -> int:
    assert node.replicas.fetchers is not None
    return node.replicas.fetchers.failed


class TestCopying:
    def test_a_follower_holds_the_same_bytes(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair[1].produce("a", "b")
        pair[1].produce("c")
        pair.run()
        assert pair[2].values() == ["a", "b", "c"]
        assert pair[2].bytes() == pair[1].bytes()
        assert pair[2].log().epochs.entries == pair[1].log().epochs.entries

    def test_acks_all_is_answered_when_the_follower_has_it(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run()
        pair.cut_off(2)
        answer = pair[1].produce("a", acks=-1)
        pair.run(100)
        assert not answer.done
        assert pair[1].partition().high_watermark == 0
        pair.reconnect()
        pair.run(1_000)
        assert answer.result().error_code == 0
        assert pair[1].partition().high_watermark == 1

    def test_the_log_start_follows(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair[1].produce("a")
        pair[1].produce("b")
        pair.run(1_000)
        pair[1].partition().delete_records_before(1)
        assert pair[1].partition().low_watermark == 0
        pair.run(1_000)
        assert pair[2].log().log_start_offset == 1
        # The follower reports its log start, so the leader knows that the records are deleted on all replicas.
        assert pair[1].partition().low_watermark == 1

    def test_a_fetch_waits_for_the_disk_where_the_topic_asks_for_it(self, pair: ReplicaCluster) -> None:
        pair.create_topic(flush_messages="1")
        pair.run()
        pair.virtual.workers.immediate = False
        answer = pair[1].produce("a", acks=-1)
        pair.run(100)
        # The follower has the record, but has not acknowledged it.
        assert pair[2].values() == ["a"]
        assert pair[1].partition().high_watermark == 0
        # A new partition does not send the acknowledgement early.
        pair.create_topic("u")
        pair.run(100)
        assert pair[1].partition().high_watermark == 0
        pair.virtual.workers.immediate = True
        pair.virtual.workers.run_all()
        pair.run()
        assert pair[1].partition().high_watermark == 1
        assert answer.result().error_code == 0

    def test_a_blank_disk_is_filled_again(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair[1].produce("a")
        pair[1].produce("b")
        pair.run(1_000)
        pair[2].crash()
        pair.virtual.files.remove_tree(pair[2].directory)
        pair[2].start()
        pair.run(1_000)
        assert pair[2].values() == ["a", "b"]

    def test_more_than_a_segment_holds_comes_in_pieces(self, make: Make) -> None:
        cluster = make(replica_fetch_max_bytes=str(8 << 20))
        cluster[2].stop()
        cluster[2].start(**{"log.segment.bytes": str(1 << 20)})
        cluster.create_topic(isr=[1])
        for _ in range(30):
            cluster[1].produce("x" * 100_000)
        cluster.run(1_000)
        assert cluster[2].bytes() == cluster[1].bytes()
        assert len(list(cluster[2].log().segments)) == 3
        assert cluster.truth().isr == (1, 2)

    def test_a_batch_that_is_larger_than_a_segment_comes_too(self, make: Make) -> None:
        """The leader has it since `segment.bytes` was larger (KAFKA-17375)."""
        cluster = make()
        cluster.cut_off(2)
        cluster.create_topic(isr=[1])
        for size in (10, 1000, 10):
            cluster[1].produce("x" * size)
        cluster.commit(r.ConfigRecord(resource_type=2, resource_name="t", name="internal.segment.bytes", value="200"))
        cluster.reconnect()
        cluster.run(5_000)
        assert cluster[2].bytes() == cluster[1].bytes()
        assert [segment.base_offset for segment in cluster[2].log().segments] == [0, 1, 2]
        assert cluster.truth().isr == (1, 2)

    def test_several_loops_share_the_partitions(self, make: Make) -> None:
        cluster = make(num_replica_fetchers="3")
        cluster.create_topic(partitions=6)
        for index in range(6):
            cluster[1].produce(f"p{index}", index=index)
        cluster.run()
        assert cluster[2].replicas.fetchers is not None
        assert len(cluster[2].replicas.fetchers) == 3
        assert sorted(len(fetcher) for fetcher in cluster[2].replicas.fetchers.fetchers) == [2, 2, 2]
        assert [cluster[2].values(index=index) for index in range(6)] == [[f"p{index}"] for index in range(6)]

    def test_very_many_partitions_are_followed_by_and_by(
        self, pair: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(follower_fetch_session, "NEW_IN_REQUEST_MAX", 2)
        pair.create_topic(partitions=9)
        for index in range(9):
            pair[1].produce(f"p{index}", index=index)
        # None of them waits for a long poll of the others.
        pair.run()
        assert [pair[2].values(index=index) for index in range(9)] == [[f"p{index}"] for index in range(9)]

    @pytest.mark.parametrize("is_abandoned", [False, True])
    def test_a_large_response_is_taken_in_several_turns(
        self, pair: ReplicaCluster, monkeypatch: pytest.MonkeyPatch, *, is_abandoned: bool
    ) -> None:
        pair.create_topic(partitions=9)
        pair.run(1_000)
        monkeypatch.setattr(follower_fetch_loop, "PARTITIONS_PER_TURN", 2)
        for index in range(9):
            pair[1].produce(f"p{index}", index=index)

        def arrived() -> int:
            return sum(bool(pair[2].values(index=index)) for index in range(9))

        scheduler = pair.virtual.scheduler
        while not arrived():
            scheduler.run_turn()
            if not scheduler._soon:
                scheduler.advance(1)
        assert arrived() == 2
        if is_abandoned:
            # The leader has a new address: the rest is fetched again.
            (fetcher,) = pair[2].replicas.fetchers.fetchers  # type: ignore[union-attr]
            fetcher.move(fetcher.endpoint)
        # A new partition does not take the rest away.
        pair.create_topic("other")
        pair.run(1_000)
        assert [pair[2].values(index=index) for index in range(9)] == [[f"p{index}"] for index in range(9)]
        assert [pair[2].partition(index=index).high_watermark for index in range(9)] == [1] * 9

    def test_a_large_response_leaves_the_session_open(
        self, pair: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pair.create_topic(partitions=9)
        pair.run(1_000)
        monkeypatch.setattr(follower_fetch_loop, "PARTITIONS_PER_TURN", 2)
        pair.requests.clear()
        for index in range(9):
            pair[1].produce(f"p{index}", index=index)
        pair.run(20)
        # Every partition of the response is taken once: a second time, its offset would not be the expected one.
        fetches = [request for sender, _, request in pair.requests if sender == 2 and isinstance(request, FetchRequest)]
        assert min(fetch.session_epoch for fetch in fetches) > 0

    def test_the_number_of_loops_changes_while_running(self, pair: ReplicaCluster) -> None:
        pair.create_topic(partitions=4)
        pair.run()
        pair[2].replicas.on_broker_config(pair[2].config.with_dynamic(dynamic={"num.replica.fetchers": "2"}))
        for index in range(4):
            pair[1].produce("a", index=index)
        pair.run(1_000)
        assert pair[2].replicas.fetchers is not None
        assert len(pair[2].replicas.fetchers) == 2
        assert all(pair[2].values(index=index) == ["a"] for index in range(4))

    def test_a_follower_takes_nothing_for_committed_that_it_does_not_have(self, pair: ReplicaCluster) -> None:
        """The leader's high watermark may be ahead of a response that had no room for all records."""
        pair.create_topic()
        pair[1].produce("a")
        pair.run(1_000)
        follower = pair[2].partition()
        follower.follow_high_watermark(99)
        assert follower.high_watermark == follower.log.log_end_offset == 1


class TestTrouble:
    def test_a_leader_that_is_away_is_asked_again_with_growing_pauses(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run()
        attempts: list[int] = []
        network = pair[2].replicas.fetchers.peers  # type: ignore[union-attr]
        send = network.send
        network.send = lambda *a, **k: (attempts.append(pair.virtual.clock.ms), send(*a, **k))[1]  # type: ignore
        pair.cut_off(1)
        pair.run(5_000)
        pauses = [later - earlier for earlier, later in pairwise(attempts)]
        assert pauses[:4] == [20, 40, 80, 160]
        assert set(pauses[8:]) == {1_000}
        pair.requests.clear()
        pair.reconnect()
        pair[1].produce("a")
        pair.run(1_000)
        assert pair[2].values() == ["a"]
        # The lost response is unknown, so the follower opens a new session.
        assert fetches(pair)[0].session_epoch == 0

    def test_a_leader_that_comes_back_elsewhere(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run()
        pair[1].stop()
        pair[1].port = 9_999
        pair[1].start()
        pair[1].produce("a")
        pair.run()
        assert pair[2].values() == ["a"]

    def test_a_leader_that_does_not_know_yet(self, pair: ReplicaCluster) -> None:
        pair[1].holds_metadata = True
        pair.create_topic()
        pair.run(50)
        pair[1].release_metadata()
        pair[1].produce("a")
        pair.run(100)
        assert pair[2].values() == ["a"]

    def test_a_new_epoch_ends_a_pause(self, pair: ReplicaCluster) -> None:
        pair[1].holds_metadata = True
        pair.create_topic()
        pair.run(2_000)
        pair.elect(1)
        pair[1].release_metadata()
        pair[1].produce("a")
        pair.run(2_000)
        assert failed_partitions(pair[2]) == 0
        assert pair[2].values() == ["a"]

    def test_a_follower_that_does_not_know_yet(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run()
        pair[2].holds_metadata = True
        pair.elect(1)
        pair[1].produce("a")
        pair.run(5_000)
        # Fenced: a retry would get the same error.
        assert failed_partitions(pair[2]) == 1
        assert pair[2].values() == []
        pair[2].release_metadata()
        pair.run()
        assert failed_partitions(pair[2]) == 0
        assert pair[2].values() == ["a"]

    def test_damage_on_the_way_is_not_written(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run()

        def damage(data: bytearray) -> bytearray:
            place = data.find(b"precious")
            if place >= 0:
                data[place] ^= 1
            return data

        pair.on_response_bytes = damage
        pair[1].produce("precious")
        pair.run(100)
        assert pair[2].log().log_end_offset == 0
        pair.on_response_bytes = lambda data: data
        pair.run(3_000)
        assert pair[2].values() == ["precious"]

    @pytest.mark.parametrize("error", [DiskFull("full"), LogDirectoryOffline("gone")])
    def test_one_partition_does_not_stop_the_others(
        self, pair: ReplicaCluster, monkeypatch: pytest.MonkeyPatch, error: Any
    ) -> None:
        pair.create_topic(partitions=2)
        pair.run()
        broken = pair[2].log(index=0)
        real = type(broken).append_as_follower

        def append(log: Any, *arguments: Any, **options: Any) -> Any:
            if log is broken:
                raise error
            return real(log, *arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(type(broken), "append_as_follower", append)
            for index in range(2):
                pair[1].produce("a", index=index)
            pair.run(3_000)
        assert pair[2].values(index=1) == ["a"]
        assert failed_partitions(pair[2]) == isinstance(error, LogDirectoryOffline)
        pair.run(3_000)
        assert pair[2].values(index=0) == ([] if isinstance(error, LogDirectoryOffline) else ["a"])

    def test_a_new_leader_does_not_take_in_what_was_on_its_way(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run()
        pair[1].produce("a")
        # The answer is on its way when the follower is elected.
        held: list[Any] = []
        scheduler = pair.virtual.scheduler
        call_soon = scheduler.call_soon
        scheduler.call_soon = lambda *arguments: held.append(arguments)  # type: ignore[method-assign, assignment]
        while scheduler._soon:
            callback, arguments = scheduler._soon.popleft()
            callback(*arguments)
        scheduler.call_soon = call_soon  # type: ignore[method-assign]
        pair.elect(2, isr=[2])
        for callback, *rest in held:
            callback(*rest)
        pair.run(100)
        assert pair[2].values() == []
        assert pair[2].partition().is_leader

    def test_an_answer_to_an_earlier_epoch_is_passed_over(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run(200)
        # The first election hurries a fetch; the second follows too soon, so the answer arrives in the next epoch.
        pair.elect(1)
        pair.run()
        pair.elect(1)
        pair.run()
        assert failed_partitions(pair[2]) == 0
        pair[1].produce("a")
        pair.run()
        assert pair[2].values() == ["a"]

    def test_nothing_is_fetched_without_a_leader(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run()
        pair.elect(-1)
        pair.run(2_000)
        before = len(pair.requests)
        pair.run(10_000)
        assert len(pair.requests) == before
        assert pair[2].replicas.fetchers is not None
        assert len(pair[2].replicas.fetchers) == 0

    def test_a_deleted_topic_is_not_fetched_any_more(self, pair: ReplicaCluster) -> None:
        topic_id = pair.create_topic()
        pair.run()
        pair.commit(r.RemoveTopicRecord(topic_id=topic_id))
        pair.run(2_000)
        before = len(pair.requests)
        pair.run(10_000)
        assert len(pair.requests) == before


class TestSessions:
    def test_only_what_moved_is_listed(self, pair: ReplicaCluster) -> None:
        pair.create_topic(partitions=3)
        pair.run()
        pair[1].produce("a", index=1)
        pair.run()
        assert [listed(request) for request in fetches(pair)] == [{0: 0, 1: 0, 2: 0}, {1: 1}]
        assert [request.session_epoch for request in fetches(pair)] == [0, 1]

    def test_a_session_that_the_leader_has_dropped_is_opened_again(self, pair: ReplicaCluster) -> None:
        pair.create_topic(partitions=2)
        pair.run()
        pair[1].replicas.sessions._sessions.clear()
        pair[1].produce("a", index=1)
        pair.run(2_000)
        assert pair[2].values(index=1) == ["a"]
        assert listed(fetches(pair)[-1]) in ({0: 0, 1: 1}, {})

    def test_a_leader_without_room_for_sessions(self, make: Make) -> None:
        cluster = make(max_incremental_fetch_session_cache_slots="0")
        cluster.create_topic(partitions=2)
        for text in "abc":
            cluster[1].produce(text, index=1)
            cluster.run(10)
        assert cluster[2].values(index=1) == ["a", "b", "c"]
        assert all(request.session_epoch == 0 for request in fetches(cluster))

    def test_a_partition_that_pauses_is_left_out(self, pair: ReplicaCluster) -> None:
        pair.create_topic("t", partitions=1)
        pair.run()
        pair[1].holds_metadata = True
        pair.create_topic("u")
        pair.run(2_000)
        pair[1].release_metadata()
        pair[1].produce("a")
        pair[1].produce("b", topic="u")
        pair.run(2_000)
        assert (pair[2].values(), pair[2].values("u")) == (["a"], ["b"])

    def test_a_deleted_topic_is_forgotten(self, pair: ReplicaCluster) -> None:
        topic_id = pair.create_topic("t")
        pair.create_topic("u")
        pair.run()
        pair.commit(r.RemoveTopicRecord(topic_id=topic_id))
        pair.requests.clear()
        pair.run(1_000)
        assert [topic.topic_id for topic in fetches(pair)[0].forgotten_topics_data] == [topic_id]
        pair[1].produce("a", topic="u")
        pair.run()
        assert pair[2].values("u") == ["a"]

    def test_a_new_partition_does_not_wait_for_the_end_of_a_long_poll(self, pair: ReplicaCluster) -> None:
        pair.create_topic("t")
        pair.run(200)
        pair.create_topic("u")
        answer = pair[1].produce("a", topic="u", acks=-1)
        pair.run()
        assert answer.result().error_code == ErrorCode.NONE


class TestQuietPartitions:
    """The cost of a round depends on the moving partitions only."""

    @pytest.fixture
    def many(self, pair: ReplicaCluster) -> ReplicaCluster:
        pair.create_topic("many", partitions=50)
        # All partitions were sent and answered, and have no news.
        pair.run(2_000)
        return pair

    def live(self, cluster: ReplicaCluster) -> list[int]:
        (session,) = [cached for cached in cluster[1].replicas.sessions._sessions.values() if cached.is_follower]
        assert session.live is not None
        assert len(session.entries) == 50
        return sorted(entry.index for entry in session.live)

    def test_what_does_not_move_is_not_looked_at(self, many: ReplicaCluster) -> None:
        assert self.live(many) == []
        assert many[1].produce("a", topic="many", index=7, acks=-1).done is False
        assert self.live(many) == [7]
        many.run(1)
        assert many[2].values("many", 7) == ["a"]
        many.run(1_500)
        assert self.live(many) == []
        assert many[2].partition("many", 7).high_watermark == 1

    def test_a_fetch_waits_although_everything_is_quiet(self, many: ReplicaCluster) -> None:
        before = len(fetches(many))
        many.run(2_000)
        assert len(fetches(many)) - before <= 5

    def test_a_quiet_follower_counts_as_caught_up_until_its_last_fetch(self, many: ReplicaCluster) -> None:
        progress = many[1].partition("many", 7).follower_progress(2)
        assert progress is not None
        many.run(60_000)
        many.cut_off(2)
        many[1].produce("a", topic="many", index=7)
        now_ms = int(many.virtual.clock.monotonic() * 1000)
        assert now_ms - progress.caught_up_ms <= 500

    def test_a_new_start_of_the_log_is_told(self, many: ReplicaCluster) -> None:
        many[1].produce("a", topic="many", index=7, acks=-1)
        many.run(2_000)
        many[1].partition("many", 7).delete_records_before(1)
        many.run(1_000)
        assert many[2].log("many", 7).log_start_offset == 1

    def test_an_unannounced_change_is_found_after_a_while(self, many: ReplicaCluster) -> None:
        many[1].produce("a", topic="many", index=7, acks=-1)
        many.run(2_000)
        # Retention advances the log start, and the partition is not notified.
        many[1].log("many", 7).advance_log_start_offset(1)
        many.run(6_000)
        assert many[2].log("many", 7).log_start_offset == 1

    def test_a_new_epoch_is_told_at_once(self, many: ReplicaCluster) -> None:
        many.elect(1, topic="many", index=7)
        many.run(1_000)
        answer = many[1].produce("a", topic="many", index=7, acks=-1)
        many.run(10)
        assert answer.result().error_code == 0
