"""The in-sync set: replicas that leave and join, and the records that are committed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.apis import fetch
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.leadership import LeaderState
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.peers import PeerUnreachable
from tests.support.replica_cluster import UNFENCE, ReplicaCluster

LAG_MS = 30_000

Make = Callable[..., ReplicaCluster]


@pytest.fixture
def three(make: Make) -> ReplicaCluster:
    return make(nodes=(1, 2, 3))


def state_of(cluster: ReplicaCluster, node_id: int = 1) -> LeaderState:
    state = cluster[node_id].partition().leader_state
    assert state is not None
    return state


def fail_with(cluster: ReplicaCluster, error: Exception) -> None:
    """The controller fails the request without a decision."""

    def decide(*_: Any) -> AlterPartitionResponse:
        raise error

    cluster.decide = decide  # type: ignore[method-assign]


def test_three_replicas_survive_the_loss_of_two(three: ReplicaCluster) -> None:
    three.create_topic(replicas=(1, 2, 3))
    for leader, text in ((1, "a"), (2, "b"), (3, "c")):
        three.run(1_000)
        assert three.truth().leader == leader
        answer = three[leader].produce(text, acks=-1)
        three.run(1_000)
        assert (answer if leader == 3 else answer.result()).error_code == ErrorCode.NONE
        if leader < 3:
            three[leader].crash()
            three.lose_broker(leader)
    assert three[3].values() == ["a", "b", "c"]


class TestLeaving:
    def test_a_silent_follower_leaves_after_its_time(self, three: ReplicaCluster) -> None:
        three.create_topic(replicas=(1, 2, 3))
        three.run(1_000)
        three.cut_off(3)
        answer = three[1].produce("a", acks=-1, timeout_ms=120_000)
        three.run(LAG_MS)
        assert three.truth().isr == (1, 2, 3)
        assert not answer.done
        three.run(LAG_MS // 2 + 1_000)
        assert three.truth().isr == (1, 2)
        assert answer.result().error_code == ErrorCode.NONE
        assert three[1].partition().high_watermark == 1
        # A replica that is not in sync delays no write.
        later = three[1].produce("b", acks=-1, timeout_ms=120_000)
        three.run(1_000)
        assert later.result().error_code == ErrorCode.NONE

    def test_a_follower_at_the_end_stays_however_quiet_it_is(self, three: ReplicaCluster) -> None:
        three.create_topic(replicas=(1, 2, 3))
        three.run(1_000)
        three.cut_off(3)
        three.run(4 * LAG_MS)
        assert three.truth().isr == (1, 2, 3)

    def test_a_follower_that_fetches_and_never_reaches_the_end_leaves(self, make: Make) -> None:
        cluster = make(nodes=(1,))
        topic_id = cluster.create_topic(replicas=(1, 2))
        for number in range(200):
            cluster[1].produce("x")
            cluster[1].produce("y")
            wanted = FetchPartition(partition=0, fetch_offset=number, partition_max_bytes=1, current_leader_epoch=0)
            request = FetchRequest(
                replica_state=ReplicaState(replica_id=2),
                topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
                max_bytes=1,
            )
            cluster[1].call(fetch, request, 17)
            cluster.run(300)
        assert cluster.truth().isr == (1,)

    def test_a_quiet_follower_is_noted_with_each_fetch(self, pair: ReplicaCluster) -> None:
        """A caught-up follower gets no new information, but its fetch counts."""
        pair.create_topic()
        pair[1].produce("a")
        pair.run(10 * LAG_MS)
        pair.cut_off(2)
        pair[1].produce("b")
        pair.run(LAG_MS - 1_000)
        assert pair.truth().isr == (1, 2)
        pair.run(LAG_MS)
        assert pair.truth().isr == (1,)

    def test_a_follower_has_its_time_after_an_election(self, three: ReplicaCluster) -> None:
        three.create_topic(replicas=(1, 2, 3))
        three[1].produce("a")
        three.run(10 * LAG_MS)
        three.cut_off(3)
        three.elect(2, isr=[1, 2, 3])
        three[2].produce("b")
        three.run(LAG_MS - 1_000)
        assert three.truth().isr == (1, 2, 3)
        three.run(LAG_MS)
        assert three.truth().isr == (1, 2)

    def test_a_wall_clock_that_jumps_changes_nothing(
        self, pair: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pair.create_topic()
        pair.run(1_000)
        pair.cut_off(2)
        pair[1].produce("a")
        monkeypatch.setattr(type(pair.virtual.clock), "now_ms", lambda clock: clock.ms + 10_000_000)
        pair.run(LAG_MS // 2 + 1_000)
        assert pair.truth().isr == (1, 2)

    def test_a_parked_fetch_counts_when_it_came(self, pair: ReplicaCluster) -> None:
        """The fetch counts with the leader's end offset at its arrival; later records do not count."""
        pair.create_topic()
        pair.run(100)
        progress = state_of(pair).followers[2]
        fetched_ms = progress.fetched_ms
        pair.cut.add((2, 1))
        pair.run(50)
        pair[1].produce("a")
        pair.run()
        assert (progress.fetched_ms, progress.leader_end_offset_at_fetch) == (fetched_ms, 0)


class TestJoining:
    def test_a_follower_joins_when_it_has_caught_up(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        for text in "abc":
            pair[1].produce(text)
        pair.run(10_000)
        assert pair.truth().isr == (1,)
        pair.reconnect()
        pair.run(2_000)
        assert pair.truth().isr == (1, 2)
        assert state_of(pair).isr == {1, 2}
        assert pair[1].partition().partition_epoch == pair.truth().partition_epoch
        statistics = pair[1].replicas.statistics()
        assert (statistics.isr_expansions, statistics.isr_shrinks, statistics.under_replicated) == (1, 0, 0)
        members = pair.alter_requests[-1].topics[0].partitions[0].new_isr_with_epochs
        assert [(member.broker_id, member.broker_epoch) for member in members] == [(1, 1), (2, 2)]

    def test_it_has_to_reach_the_present_epoch(self, pair: ReplicaCluster) -> None:
        """A replica at the high watermark may lack records that the new leader has but has not committed yet."""
        pair.create_topic(isr=[1, 2])
        pair.run()
        pair.cut_off(2)
        pair[1].produce("a")
        pair.elect(1, isr=[1])
        # The high watermark could only stay behind because too few are in sync.
        state, partition = state_of(pair), pair[1].partition()
        partition.log.high_watermark = 0
        state.followers[2].log_end_offset = 0
        partition.isr_keeper.consider_joining(partition, state, state.followers[2])  # type: ignore[union-attr]
        assert state.pending is None
        state.followers[2].log_end_offset = 1
        partition.isr_keeper.consider_joining(partition, state, state.followers[2])  # type: ignore[union-attr]
        assert state.pending is not None

    def test_a_fenced_broker_stays_out(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        pair.fence(2)
        pair.reconnect()
        pair.run(10_000)
        assert (pair.truth().isr, pair.alter_requests) == ((1,), [])
        pair.fence(2, UNFENCE)
        pair.run(1_000)
        assert pair.truth().isr == (1, 2)

    def test_a_broker_on_its_way_out_stays_out(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        epoch = pair.image.brokers[2].broker_epoch
        pair.commit(r.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=epoch, in_controlled_shutdown=1))
        pair.reconnect()
        pair.run(10_000)
        assert (pair.truth().isr, pair.alter_requests) == ((1,), [])

    def test_a_process_that_has_been_replaced_stays_out(self, pair: ReplicaCluster) -> None:
        """KIP-903: the new process may have started with an empty disk."""
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        pair.reconnect()
        pair.register(pair[2])
        pair.run(10_000)
        assert (pair.truth().isr, pair.alter_requests) == ((1,), [])

    def test_fetches_of_a_replaced_process_are_refused(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run()
        partition = pair[1].partition()
        partition.check_follower(2, replica_epoch=2)
        with pytest.raises(KafkaError) as caught:
            partition.on_follower_fetch(2, fetch_offset=0, log_start_offset=0, now_ms=0, replica_epoch=1)
        assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_restarted_follower_comes_back(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair[1].produce("a")
        pair.run(1_000)
        pair[2].stop()
        topic_id = pair.image.topics.by_name["t"].topic_id
        pair.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
        pair[1].produce("b")
        pair.run(1_000)
        pair[2].start()
        pair.run(2_000)
        assert pair.truth().isr == (1, 2)
        assert pair[2].values() == ["a", "b"]


class TestWhatIsCommitted:
    def test_a_joining_follower_counts_before_the_controller_has_answered(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        pair.create_topic(isr=[1])
        pair[1].produce("a")
        fail_with(pair, PeerUnreachable("away"))
        pair.reconnect()
        pair.run(2_000)
        assert state_of(pair).maximal_isr == {1, 2}
        assert state_of(pair).isr == {1}
        pair.cut_off(2)
        pair[1].produce("b")
        # Longer than the follower counts as caught up: only its pending membership holds the high watermark.
        pair.run(2 * LAG_MS)
        assert pair[1].partition().high_watermark == 1

    def test_a_proposed_member_does_not_count_for_min_insync_replicas(self, pair: ReplicaCluster) -> None:
        """The controller may reject the proposal: then the record would be acknowledged with too few replicas."""
        pair.cut_off(2)
        pair.create_topic(isr=[1], min_insync_replicas="2")
        fail_with(pair, PeerUnreachable("away"))
        pair.reconnect()
        pair.run(2_000)
        assert (state_of(pair).isr, state_of(pair).maximal_isr) == ({1}, {1, 2})
        assert pair[1].produce("a", acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert pair[1].produce("b", acks=1).error_code == ErrorCode.NONE
        pair.run(1_000)
        assert pair[1].partition().high_watermark == 0
        assert pair[1].partition().commit_error(0) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def test_a_leaving_follower_counts_until_the_controller_has_answered(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        pair.run(1_000)
        fail_with(pair, KafkaError(ErrorCode.NOT_CONTROLLER))
        pair.cut_off(2)
        answer = pair[1].produce("a", acks=-1, timeout_ms=600_000)
        pair.run(4 * LAG_MS)
        assert not answer.done
        del pair.decide
        pair.run(1_000)
        assert answer.result().error_code == 0

    def test_a_follower_about_to_join_is_waited_for(self, pair: ReplicaCluster) -> None:
        """Otherwise a busy leader stays ahead of the follower, which never joins."""
        pair.create_topic(isr=[1, 2])
        pair.run(1_000)
        topic_id = pair.image.topics.by_name["t"].topic_id
        pair.cut_off(2)
        pair.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
        pair[1].produce("a")
        # The follower was at the end a moment ago, and its broker is alive.
        assert pair[1].partition().high_watermark == 0
        pair.run(2 * LAG_MS)
        pair[1].produce("b")
        assert pair[1].partition().high_watermark == 2

    def test_a_follower_that_went_instead_of_joining_is_not_waited_for(self, pair: ReplicaCluster) -> None:
        """No other event may move the high watermark, because the producer waits for its response."""
        pair.create_topic(isr=[1, 2])
        pair.run(1_000)
        topic_id = pair.image.topics.by_name["t"].topic_id
        pair.cut_off(2)
        pair.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
        answer = pair[1].produce("a", acks=-1, timeout_ms=120_000)
        assert not answer.done
        pair.fence(2)
        pair.run(LAG_MS)
        assert answer.done
        assert answer.result().error_code == ErrorCode.NONE

    def test_too_few_in_sync_replicas_commit_nothing(self, pair: ReplicaCluster) -> None:
        """KIP-966: what is committed is on `min.insync.replicas` disks."""
        pair.create_topic(min_insync_replicas="2")
        pair.run(1_000)
        pair.cut_off(2)
        waiting = pair[1].produce("a", acks=-1, timeout_ms=100_000)
        pair.run(2 * LAG_MS)
        assert pair.truth().isr == (1,)
        assert not waiting.done
        assert pair[1].produce("b", acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert pair[1].produce("c", acks=1).error_code == ErrorCode.NONE
        assert pair[1].partition().high_watermark == 0
        pair.reconnect()
        pair.run(2_000)
        assert waiting.result().error_code == ErrorCode.NONE
        assert pair[1].partition().high_watermark == 2
        assert pair[2].values() == ["a", "c"]

    def test_fewer_needed_replicas_commit_at_once(self, pair: ReplicaCluster) -> None:
        pair.create_topic(isr=[1], min_insync_replicas="2")
        pair.fence(2)
        pair[1].produce("a")
        assert pair[1].partition().high_watermark == 0
        pair.commit(r.ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="1"))
        assert pair[1].partition().high_watermark == 1

    def test_too_few_after_the_append(self, three: ReplicaCluster) -> None:
        three.create_topic(replicas=(1, 2, 3), min_insync_replicas="2")
        three.run(1_000)
        answer = three[1].produce("a", acks=-1)
        topic_id = three.image.topics.by_name["t"].topic_id
        partition = three[1].partition()
        for follower in (2, 3):
            partition.on_follower_fetch(follower, fetch_offset=1, log_start_offset=0, now_ms=0, replica_epoch=follower)
        three.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
        three.run()
        assert answer.result().error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class TestAnswers:
    def start_joining(self, cluster: ReplicaCluster) -> None:
        cluster.cut_off(2)
        cluster.create_topic(isr=[1])
        cluster.reconnect()
        cluster.run(50)

    @pytest.mark.parametrize("error", [PeerUnreachable("away"), KafkaError(ErrorCode.STALE_BROKER_EPOCH)])
    def test_a_controller_that_is_away_is_asked_again(self, pair: ReplicaCluster, error: Exception) -> None:
        fail_with(pair, error)
        self.start_joining(pair)
        pair.run(1_000)
        request_count = len(pair.alter_requests)
        assert 15 <= request_count <= 25
        assert pair.truth().isr == (1,)
        del pair.decide
        pair.run(100)
        assert pair.truth().isr == (1, 2)
        assert len(pair.alter_requests) == request_count + 1

    def test_an_answer_that_is_lost_is_asked_for_again(self, pair: ReplicaCluster) -> None:
        """The change was made; the retry has an old partition epoch, and the metadata brings the new state."""

        def lose(_: AlterPartitionResponse) -> AlterPartitionResponse:
            pair.on_alter_answer = lambda response: response
            raise PeerUnreachable("lost")

        pair.on_alter_answer = lose
        self.start_joining(pair)
        pair.run(1_000)
        assert pair.truth().isr == (1, 2)
        assert state_of(pair).isr == {1, 2}
        assert state_of(pair).pending is None

    def test_an_ineligible_replica_is_tried_again_later(self, pair: ReplicaCluster) -> None:
        real = pair.decide
        pair.decide = lambda request: refusal(request, ErrorCode.INELIGIBLE_REPLICA)  # type: ignore[method-assign]
        self.start_joining(pair)
        assert state_of(pair).pending is None
        assert state_of(pair).maximal_isr == {1}
        pair.decide = real  # type: ignore[method-assign]
        pair.run(2_000)
        assert pair.truth().isr == (1, 2)

    @pytest.mark.parametrize(
        "code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NEW_LEADER_ELECTED]
    )
    def test_what_is_superseded_waits_for_the_metadata(self, pair: ReplicaCluster, code: ErrorCode) -> None:
        real = pair.decide
        pair.decide = lambda request: refusal(request, code)  # type: ignore[method-assign]
        self.start_joining(pair)
        pair.run(10_000)
        assert len(pair.alter_requests) == 1
        assert state_of(pair).pending is not None
        pair.decide = real  # type: ignore[method-assign]
        pair.elect(1)
        pair.run(2_000)
        assert pair.truth().isr == (1, 2)

    def test_any_other_refusal_is_asked_again(self, pair: ReplicaCluster) -> None:
        real = pair.decide
        pair.decide = lambda request: refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR)  # type: ignore[method-assign]
        self.start_joining(pair)
        pair.run(200)
        assert len(pair.alter_requests) >= 4
        pair.decide = real  # type: ignore[method-assign]
        pair.run(200)
        assert pair.truth().isr == (1, 2)

    def test_metadata_that_is_older_than_the_answer_is_passed_over(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        topic_id = pair.create_topic(isr=[1])
        pair[1].holds_metadata = True
        pair.reconnect()
        pair.run(2_000)
        # The responses are ahead of the metadata: the follower has joined ...
        assert state_of(pair).isr == {1, 2}
        pair.cut_off(2)
        pair[1].produce("a")
        pair.run(2 * LAG_MS)
        # ... and left.
        assert state_of(pair).isr == {1}
        assert pair[1].partition().partition_epoch == 2
        joined, left = pair[1].held
        pair[1].replicas.publish(*joined)
        assert (state_of(pair).isr, pair[1].partition().partition_epoch) == ({1}, 2)
        pair[1].replicas.publish(*left)
        assert (state_of(pair).isr, pair[1].partition().partition_epoch) == ({1}, 2)
        pair[1].holds_metadata = False
        pair.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1, 2]))
        assert state_of(pair).isr == {1, 2}

    def test_an_answer_to_an_earlier_question_does_not_touch_a_later_one(self, pair: ReplicaCluster) -> None:
        topic_id = pair.create_topic(isr=[1, 2])
        pair.run(1_000)
        state, partition = state_of(pair), pair[1].partition()
        keeper = partition.isr_keeper
        assert keeper is not None

        def supersede(request: Any) -> AlterPartitionResponse:
            # Before the answer is there, the metadata brings a newer set, and the follower asks to join that.
            pair.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
            state.followers[2].log_end_offset = partition.log.log_end_offset
            keeper.consider_joining(partition, state, state.followers[2])
            assert state.pending is not None
            pair.decide = note_pending  # type: ignore[method-assign]
            return refusal(request, ErrorCode.INELIGIBLE_REPLICA)

        def note_pending(request: Any) -> AlterPartitionResponse:
            asked_later.append(state.pending is not None and state.pending.is_growth)
            return real(request)

        asked_later: list[bool] = []
        real = pair.decide
        pair.decide = supersede  # type: ignore[method-assign]
        pair.cut_off(2)
        pair[1].produce("a")
        keeper.check_lag()
        state.followers[2].caught_up_ms = -LAG_MS
        pair.virtual.clock.ms += 2 * LAG_MS
        keeper.check_lag()
        pair.run(100)
        assert asked_later == [True]
        assert pair.truth().isr == (1, 2)

    def test_nothing_is_asked_after_the_leadership_is_gone(self, pair: ReplicaCluster) -> None:
        fail_with(pair, PeerUnreachable("away"))
        self.start_joining(pair)
        request_count = len(pair.alter_requests)
        assert request_count
        pair.elect(2, isr=[1, 2])
        pair.run(5_000)
        assert len(pair.alter_requests) <= request_count + 1


def refusal(request: Any, code: ErrorCode) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=[
            ResponseTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    ResponsePartitionData(partition_index=wanted.partition_index, error_code=code)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
