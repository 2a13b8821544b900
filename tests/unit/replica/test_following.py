"""Followers: from a leader's log to an equal one, whatever lay in it before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from ottla.broker.apis import delete_records
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.replica.following import truncation_offset
from ottla.storage.errors import DiskFull, LogDirectoryOffline
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.fetch import FetchRequest
from tests.support.replica_cluster import ReplicaCluster, ReplicaNode, listed

Make = Callable[..., ReplicaCluster]


def fetches(cluster: ReplicaCluster, source: int = 2) -> list[FetchRequest]:
    return [request for who, _, request in cluster.requests if who == source and isinstance(request, FetchRequest)]


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

    def test_the_high_watermark_follows_with_the_next_answer(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair[1].produce("a")
        pair.run()
        assert (pair[1].partition().high_watermark, pair[2].partition().high_watermark) == (1, 0)
        pair.run(500)
        assert pair[2].partition().high_watermark == 1

    def test_the_log_start_follows(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair[1].produce("a")
        pair[1].produce("b")
        pair.run(1_000)
        pair[1].partition().delete_records_before(1)
        assert pair[1].partition().low_watermark == 0
        pair.run(1_000)
        assert pair[2].log().log_start_offset == 1
        # The leader is told so, which is how it knows that the records are gone everywhere.
        assert pair[1].partition().low_watermark == 1

    def test_a_fetch_waits_for_the_disk_where_the_topic_asks_for_it(self, pair: ReplicaCluster) -> None:
        pair.create_topic(flush_messages="1")
        pair.run()
        pair.virtual.workers.immediate = False
        answer = pair[1].produce("a", acks=-1)
        pair.run(100)
        # It has it, but has not told so.
        assert pair[2].values() == ["a"]
        assert pair[1].partition().high_watermark == 0
        # A new partition does not hurry past it.
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


class TestTruncation:
    """`truncation_offset`, with our log holding epoch 1 from 0, epoch 3 from 10, epoch 5 from 20, and ending at 30."""

    @pytest.mark.parametrize(
        ("epoch", "end_offset", "expected"),
        [
            (5, 25, 25),  # the leader ends our last epoch before we do
            (3, 15, 15),  # the leader never had epoch 5 and left epoch 3 before us
            (3, 99, 20),  # the leader stayed longer in epoch 3 than we did
            (4, 18, 20),  # an epoch that we do not know: back to the end of the last one below it
            (2, 12, 10),
            (0, 0, 0),  # older than everything we have
        ],
    )
    def test_where_to_cut(self, pair: ReplicaCluster, epoch: int, end_offset: int, expected: int) -> None:
        pair.create_topic(leader=1)
        log = pair[2].log()
        for own_epoch in (1, 3, 5):
            for _ in range(10):
                pair[2].write("x", epoch=own_epoch)
        assert log.log_end_offset == 30
        assert truncation_offset(log, epoch=epoch, end_offset=end_offset) == expected

    def test_without_epochs_the_leader_is_believed(self, pair: ReplicaCluster) -> None:
        pair.create_topic(leader=1)
        pair[2].write("x", "y", epoch=0)
        pair[2].log().epochs.clear()
        assert truncation_offset(pair[2].log(), epoch=0, end_offset=1) == 1


class TestDivergence:
    def test_a_restarted_follower_keeps_what_it_may_have_to_lead(self, pair: ReplicaCluster) -> None:
        """KIP-101, first scenario: the follower knows too low a high watermark and is elected right after a restart."""
        pair.create_topic()
        pair[1].produce("m1")
        pair.run(1_000)
        pair[1].produce("m2")
        pair.run()
        assert pair[1].partition().high_watermark == 2
        assert pair[2].partition().high_watermark == 1
        pair.cut_off(1)
        pair[2].crash()
        pair[2].start()
        pair.run(1_000)
        pair.elect(2, isr=[2])
        pair.run()
        assert pair[2].values() == ["m1", "m2"]
        assert pair[2].partition().high_watermark == 2

    def test_two_leaders_wrote_the_same_offset(self, pair: ReplicaCluster) -> None:
        """KIP-101, second scenario: both crash, one comes back without its last record and leads on."""
        pair.create_topic()
        pair[1].produce("m1")
        pair.run(1_000)
        pair.cut_off(2)
        pair[1].produce("m2")
        pair[1].crash()
        pair.reconnect()
        pair.elect(2, isr=[2])
        pair[2].produce("m3")
        pair[1].start()
        pair.run(1_000)
        assert pair[1].values() == ["m1", "m3"]
        assert pair[1].bytes() == pair[2].bytes()
        assert pair.truth().isr == (2, 1)

    def test_epochs_that_only_one_of_both_knows(self, pair: ReplicaCluster) -> None:
        """KIP-279: fast failovers leave epochs here that the leader has never seen, and the other way round."""
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        for epoch, count in ((1, 5), (2, 5), (4, 3)):
            for number in range(count):
                pair[1].write(f"leader {epoch}.{number}", epoch=epoch)
        for epoch, count in ((1, 5), (3, 9)):
            for number in range(count):
                pair[2].write(f"leader {epoch}.{number}" if epoch == 1 else "lost", epoch=epoch)
        for _ in range(5):
            pair.elect(1)
        pair.reconnect()
        pair.run(5_000)
        assert pair[2].bytes() == pair[1].bytes()
        assert pair[2].log().epochs.entries == pair[1].log().epochs.entries
        # The first answer names epoch 2, which we do not have: back to the end of epoch 1, which agrees.
        asked = [
            (wanted.last_fetched_epoch, wanted.fetch_offset)
            for f in fetches(pair)
            for t in f.topics
            for wanted in t.partitions
        ]
        assert asked[:3] == [(3, 14), (1, 5), (4, 13)]

    def test_several_rounds(self, pair: ReplicaCluster) -> None:
        """Neither knows the epochs that the other names: each round takes one away."""
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        for epoch in (1, 2, 4, 6):
            pair[1].write(f"leader {epoch}", epoch=epoch)
        for epoch in (1, 3, 5, 7):
            pair[2].write(f"leader {epoch}" if epoch == 1 else "lost", epoch=epoch)
        for _ in range(8):
            pair.elect(1)
        pair.reconnect()
        pair.run(5_000)
        assert pair[2].bytes() == pair[1].bytes()
        assert pair[2].values() == ["leader 1", "leader 2", "leader 4", "leader 6"]

    def test_a_log_without_epochs_is_cut_at_its_high_watermark(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair[1].produce("a")
        pair.run(1_000)
        pair.cut_off(1)
        pair[2].write("lost", epoch=0)
        pair[2].log().epochs.clear()
        pair.reconnect()
        pair.elect(1)
        pair[1].produce("b")
        pair.run(1_000)
        assert pair[2].values() == ["a", "b"]

    def test_the_cleaner_is_told(self, pair: ReplicaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[tuple[TopicPartition, int]] = []
        monkeypatch.setattr(
            pair[2].logs.cleaner, "on_log_truncated", lambda log, offset: told.append((log.topic_partition, offset))
        )
        pair.create_topic()
        pair[1].produce("a")
        pair.run()
        pair[2].write("lost", epoch=0)
        pair.elect(1)
        pair[1].produce("b")
        pair.run(1_000)
        assert told == [(TopicPartition("t", 0), 1)]
        assert pair[2].values() == ["a", "b"]


class TestOutOfRange:
    def test_a_leader_that_begins_later(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair[1].produce("a")
        pair.run(1_000)
        pair.cut_off(2)
        pair.elect(1, isr=[1])
        for text in "bcd":
            pair[1].produce(text)
        pair[1].log().roll()
        pair[1].partition().delete_records_before(3)
        pair.reconnect()
        pair.run(5_000)
        assert pair[2].log().log_start_offset == 3
        assert pair[2].values() == ["d"]
        assert pair.truth().isr == (1, 2)

    def test_a_leader_that_begins_in_the_middle_of_a_batch(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        pair[1].produce("a", "b", "c")
        pair[1].partition().delete_records_before(2)
        pair.reconnect()
        pair.run(5_000)
        assert pair[2].log().log_start_offset == 2
        assert pair[2].bytes() == pair[1].bytes()

    def test_a_leader_that_ends_earlier(self, pair: ReplicaCluster) -> None:
        """An unclean election, and a follower that cannot tell by epochs where the logs part."""
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        pair[1].produce("a")
        for text in ("a", "lost", "lost"):
            pair[2].write(text, epoch=0)
        pair[2].log().epochs.clear()
        pair[2].log().high_watermark = 3
        pair.reconnect()
        pair.elect(1)
        pair.run(5_000)
        assert pair[2].log().log_end_offset == 1

    def test_the_question_may_fail(self, pair: ReplicaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        for text in "ab":
            pair[1].produce(text)
        pair[1].log().roll()
        pair[1].partition().delete_records_before(1)
        pair.reconnect()

        def refuse(*_: Any, **__: Any) -> Any:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        with monkeypatch.context() as patched:
            patched.setattr("ottla.broker.apis.list_offsets.find_offset", refuse)
            pair.run(5_000)
            assert pair[2].log().log_start_offset == 0
        pair.run(5_000)
        assert pair[2].values() == ["b"]


class TestTrouble:
    def test_a_leader_that_is_away_is_asked_again_with_growing_pauses(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run()
        attempts: list[int] = []
        network = pair[2].replicas.fetchers._peers  # type: ignore[union-attr]
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
        # Nobody knows which answer was lost, so a session is begun anew.
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
        # Fenced: it would only be told the same again.
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
        # The first is hurried for, the second is too soon after it: its answer comes while the next epoch holds.
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

    def test_a_session_that_the_leader_has_dropped_is_begun_anew(self, pair: ReplicaCluster) -> None:
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


class TestDeletingRecords:
    def delete(self, cluster: ReplicaCluster, offset: int, *, timeout_ms: int = 5_000) -> Any:
        wanted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        return cluster[1].call(delete_records, DeleteRecordsRequest(topics=[wanted], timeout_ms=timeout_ms), 2)

    def result(self, response: Any) -> tuple[int, int]:
        answer = (response.result() if isinstance(response, Deferred) else response).topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    @pytest.fixture(autouse=True)
    def _topic(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        for text in "abc":
            pair[1].produce(text)
        pair.run(1_000)

    def test_it_is_answered_when_the_followers_have_followed(self, pair: ReplicaCluster) -> None:
        answer = self.delete(pair, 2)
        assert not answer.done
        pair.run(1_000)
        assert self.result(answer) == (ErrorCode.NONE, 2)
        assert pair[2].log().log_start_offset == 2
        # Nothing to wait for the second time.
        assert self.result(self.delete(pair, 2)) == (ErrorCode.NONE, 2)

    def test_a_follower_that_does_not_come(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        answer = self.delete(pair, 2)
        pair.run(5_000)
        assert self.result(answer) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert self.result(self.delete(pair, 2, timeout_ms=0)) == (ErrorCode.REQUEST_TIMED_OUT, 0)

    def test_a_broker_that_is_away_is_not_waited_for(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        pair.fence(2)
        assert self.result(self.delete(pair, 3)) == (ErrorCode.NONE, 3)

    def test_a_leader_that_is_replaced_meanwhile(self, pair: ReplicaCluster) -> None:
        answer = self.delete(pair, 2)
        pair.elect(2)
        pair.run()
        assert self.result(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert not pair[1].partition().parked_deletes
