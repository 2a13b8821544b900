"""Which partitions a member of a consumer group revokes, and when it reports them."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.consumer.group_consumer import ConsumerMembership
from ottla.client.errors import TimedOut
from ottla.model.errors import ErrorCode, KafkaError
from tests.unit.client.scripted_coordinator import (
    ONE,
    OTHER,
    TOPIC_ID,
    Cluster,
    Rebalances,
    poll_until,
    run,
)


def test_partitions_are_given_up_before_the_coordinator_hears_of_it() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.calls) == 1)

        async def pause() -> None:
            # Long enough for any number of heartbeats.
            begun = len(cluster.reported)
            while len(cluster.reported) < begun + 3:
                await asyncio.sleep(0)
            assert all(owned == [0] for _, owned in cluster.reported[begun:])

        cluster.assigned = []
        rebalances.pause = pause
        await poll_until(member, lambda: len(rebalances.calls) == 2)
        await poll_until(member, lambda: cluster.reported[-1][1] == [])

    run(work, ConsumerMembership)


def test_a_heartbeat_names_what_a_poll_may_take_over_before_it_arrives() -> None:
    """The coordinator immediately reassigns partitions that a heartbeat leaves out."""

    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.calls) == 1)
        cluster.assigned = [ONE, OTHER]
        # The consumer is not polled, but heartbeats continue.
        begun = len(cluster.reported)
        while len(cluster.reported) < begun + 3:
            await asyncio.sleep(0)
        assert member._owned == [ONE]
        assert cluster.reported[-1][1] == [0, 1]

        async def pause() -> None:
            heard = len(cluster.reported)
            cluster.assigned = [ONE]
            while len(cluster.reported) < heard + 3:
                await asyncio.sleep(0)
            # At this moment the listener is called with the second partition.
            assert cluster.reported[-1][1] == [0, 1]
            rebalances.pause = None

        rebalances.pause = pause
        await member.poll()
        # Partitions that were revoked meanwhile are not read.
        assert rebalances.calls[1:] == [([], [ONE, OTHER]), ([OTHER], [ONE])]
        await poll_until(member, lambda: cluster.reported[-1][1] == [0])

    run(work, ConsumerMembership)


def test_who_is_put_out_while_it_takes_over_its_first_partitions_does_not_keep_them() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        async def pause() -> None:
            rebalances.pause = None
            cluster.errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
            while cluster.errors:
                await asyncio.sleep(0)
            heard = len(cluster.reported)
            for _ in range(50):
                await asyncio.sleep(0)
            assert len(cluster.reported) == heard

        rebalances.pause = pause
        await poll_until(member, lambda: len(rebalances.calls) == 3)
        assert rebalances.calls == [([], [ONE]), ([ONE], []), ([], [ONE])]
        assert rebalances.members == [False, False, True]

    run(work, ConsumerMembership)


def test_a_listener_that_fails_after_its_member_was_put_out_does_not_keep_it_out() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        async def fail() -> None:
            rebalances.pause = None
            cluster.errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
            while cluster.errors or member.is_member:
                await asyncio.sleep(0)
            raise ValueError("a bad listener")

        rebalances.pause = fail
        with pytest.raises(ValueError, match="a bad listener"):
            await poll_until(member, lambda: False)
        # The consumer may have taken the partition before its listener failed.
        await poll_until(member, lambda: rebalances.calls == [([ONE], []), ([], [ONE])])

    run(work, ConsumerMembership)


def test_an_assignment_whose_answer_was_lost_is_asked_for_again() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.calls) == 1)
        cluster.lost, cluster.assigned = 1, [ONE, OTHER]
        await poll_until(member, lambda: len(rebalances.calls) == 2)
        assert rebalances.calls[-1] == ([], [ONE, OTHER])

    run(work, ConsumerMembership)


def test_an_assignment_of_a_topic_that_is_not_known_yet_is_asked_for_again() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        # The first broker does not know the topic yet.
        name = cluster.metadata.names.pop(TOPIC_ID)
        await poll_until(member, lambda: len(cluster.reported) > 1)
        cluster.metadata.names[TOPIC_ID] = name
        await poll_until(member, lambda: rebalances.calls == [([], [ONE])])

    run(work, ConsumerMembership)


def test_a_member_whose_assignment_could_not_be_taken_over_asks_for_it_again() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        name = cluster.metadata.names.pop(TOPIC_ID)
        cluster.refusals = 1
        with pytest.raises(TimedOut):
            await poll_until(member, lambda: False)
        cluster.metadata.names[TOPIC_ID] = name
        await poll_until(member, lambda: rebalances.calls == [([], [ONE])])

    run(work, ConsumerMembership)


def test_who_leaves_while_it_joins_is_no_member_for_long() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, _: Rebalances) -> None:
        cluster.is_silent = True
        await poll_until(member, lambda: bool(cluster.reported))
        await member.leave()
        assert [epoch for epoch, _ in cluster.reported] == [0, -1]

    run(work, ConsumerMembership)


def test_who_never_asked_to_join_does_not_leave() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, _: Rebalances) -> None:
        await member.leave()
        assert not cluster.reported

    run(work, ConsumerMembership)


def test_a_group_of_another_kind_is_told() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, _: Rebalances) -> None:
        cluster.errors.append(ErrorCode.GROUP_ID_NOT_FOUND)
        with pytest.raises(KafkaError) as raised:
            await poll_until(member, lambda: False)
        assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND

    run(work, ConsumerMembership)


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_who_was_put_out_gives_everything_up_before_it_joins_again(code: ErrorCode) -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.calls) == 1)
        cluster.errors.append(code)
        while cluster.errors:
            await asyncio.sleep(0)
        heard = len(cluster.reported)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(cluster.reported) == heard
        await poll_until(member, lambda: len(rebalances.calls) == 3)
        assert rebalances.calls == [([], [ONE]), ([ONE], []), ([], [ONE])]
        # No offset is committed for partitions that another member may have owned.
        assert rebalances.members == [True, False, True]

    run(work, ConsumerMembership)


def test_a_target_that_a_listener_failed_to_take_over_is_given_up_when_it_is_taken_away() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.calls) == 1)

        async def fail() -> None:
            rebalances.pause = None
            raise ValueError("a bad listener")

        rebalances.pause = fail
        cluster.assigned = [ONE, OTHER]
        with pytest.raises(ValueError, match="a bad listener"):
            await poll_until(member, lambda: False)
        # Taken away before the next poll.
        cluster.assigned = [ONE]
        while member._target != [ONE]:
            await asyncio.sleep(0)
        await member.poll()
        assert rebalances.calls[1:] == [([OTHER], [ONE])]

    run(work, ConsumerMembership)


def test_a_target_is_taken_over_after_a_listener_that_failed_to_give_partitions_up() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.calls) == 1)

        async def fail() -> None:
            rebalances.pause = None
            raise ValueError("a bad listener")

        rebalances.pause = fail
        cluster.assigned = [OTHER]
        with pytest.raises(ValueError, match="a bad listener"):
            await poll_until(member, lambda: False)
        cluster.assigned = [ONE, OTHER]
        while member._target != [ONE, OTHER]:
            await asyncio.sleep(0)
        # The consumer may not have the second partition.
        await member.poll()
        assert rebalances.calls[1:] == [([], [ONE, OTHER])]

    run(work, ConsumerMembership)


def test_who_steps_aside_because_nobody_polls_reads_nothing_meanwhile() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.calls) == 1)
        begun = len(cluster.reported)
        member._polled = -1e9

        async def pause_before_leaving() -> None:
            while all(epoch >= 0 for epoch, _ in cluster.reported[begun:]):
                await asyncio.sleep(0)

        cluster.is_deaf = True
        await pause_before_leaving()
        await member.poll()
        assert rebalances.calls[1:] == [([ONE], [])]
        assert rebalances.members == [True, False]
        cluster.is_deaf = False
        async with asyncio.timeout(5):
            await member.wait()
        await poll_until(member, lambda: len(rebalances.calls) == 3)
        assert rebalances.calls[2] == ([], [ONE])

    run(work, ConsumerMembership)


def test_a_fenced_static_member_of_the_new_protocol_keeps_nothing() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.calls) == 1)
        cluster.errors += [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID]
        for code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
            with pytest.raises(KafkaError) as raised:
                await poll_until(member, lambda: False)
            assert raised.value.code == code
        assert rebalances.calls == [([], [ONE]), ([ONE], [])]
        assert rebalances.members == [True, False]

    run(work, ConsumerMembership, group_instance_id="i")
