"""Which partitions a member of a classic group revokes, and when it reports them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ottla.client.consumer.assignors import COOPERATIVE
from ottla.client.consumer.group_classic import ClassicMembership
from ottla.client.consumer.membership import Subscription
from ottla.client.errors import TimedOut
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from tests.unit.client.scripted_coordinator import (
    ONE,
    OTHER,
    TOPIC,
    Cluster,
    Rebalances,
    run,
)


def test_who_was_put_out_of_a_cooperative_group_gives_everything_up() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await member.poll()
        cluster.errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
        await member.wait()
        await member.poll()
        assert rebalances.calls == [([], [ONE]), ([ONE], []), ([], [ONE])]
        assert rebalances.members == [True, False, True]

    run(work, ClassicMembership, assignors=(COOPERATIVE,))


def test_a_cooperative_member_keeps_what_it_has_while_others_come() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        cluster.assigned = [ONE, OTHER]
        await member.poll()
        cluster.assigned = [OTHER]
        cluster.errors.append(ErrorCode.REBALANCE_IN_PROGRESS)
        await member.wait()
        await member.poll()
        assert rebalances.calls == [([], [ONE, OTHER]), ([ONE], [OTHER]), ([], [OTHER])]
        assert all(rebalances.members)

    run(work, ClassicMembership, assignors=(COOPERATIVE,))


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID],
)
def test_a_listener_that_takes_its_time_keeps_the_session_and_causes_one_rebalance(code: ErrorCode) -> None:
    is_removed = code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)

    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await member.poll()

        async def pause() -> None:
            rebalances.pause = None
            assert member.is_member
            cluster.errors += [code, code]
            # A removed member sends no more requests.
            wanted = cluster.heartbeats + (1 if is_removed else 3)
            while cluster.heartbeats < wanted or member.is_member == is_removed:
                await asyncio.sleep(0)
            cluster.errors.clear()

        member.enforce_rebalance()
        rebalances.pause = pause
        await member.poll()
        wanted = cluster.heartbeats + 3
        while cluster.heartbeats < wanted:
            await member.poll()
            await asyncio.sleep(0)
        assert rebalances.calls == [([], [ONE]), ([ONE], []), ([], [ONE])]
        assert cluster.epoch == 2

    run(work, ClassicMembership)


def test_a_member_that_could_not_take_over_its_assignment_joins_again() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        cluster.refusals = 1
        with pytest.raises(TimedOut):
            await member.poll()
        await member.poll()
        assert rebalances.calls == [([], [ONE])]

    run(work, ClassicMembership)


@pytest.mark.parametrize("subscription", [TOPIC, Subscription((), "t|u")])
def test_what_comes_later_is_read_too(subscription: Subscription) -> None:
    """New partitions, and new topics that a pattern finds."""

    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        cluster.settings = replace(cluster.settings, metadata_age_max_ms=0)
        cluster.leads = True
        await member.poll()
        for _ in range(20):
            await asyncio.sleep(0)
        partition = PartitionInfo(2, 1, 0, (), (), ())
        if subscription.pattern is None:
            new = TopicPartition("t", 2)
            cluster.metadata.topics["t"].partitions[2] = partition
        else:
            cluster.metadata.topics["u"] = TopicInfo("u", Uuid(b"u" * 16), False, {0: partition}, None)
            new = TopicPartition("u", 0)
        await member.wait()
        await member.poll()
        assert rebalances.calls == [([], [ONE, OTHER]), ([ONE, OTHER], []), ([], [ONE, OTHER, new])]

    run(work, ClassicMembership, subscription)


def test_a_rebalance_that_the_listener_asks_for_begins_at_once() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        async def pause() -> None:
            rebalances.pause = None
            member.enforce_rebalance()

        rebalances.pause = pause
        await member.poll()
        assert cluster.epoch == 2
        assert rebalances.calls == [([], [ONE]), ([ONE], []), ([], [ONE])]
        await member.poll()
        assert cluster.epoch == 2

    run(work, ClassicMembership)


@pytest.mark.parametrize("assignors", [("range",), (COOPERATIVE,)])
def test_what_a_listener_failed_to_take_over_is_given_up_or_claimed(assignors: tuple[str, ...]) -> None:
    """The consumer has these partitions by then and reads them while its member joins again."""

    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        async def fail() -> None:
            rebalances.pause = None
            raise ValueError("a bad listener")

        rebalances.pause = fail
        with pytest.raises(ValueError, match="a bad listener"):
            await member.poll()
        await member.poll()
        if assignors == (COOPERATIVE,):
            assert cluster.claims == [[], [ONE]]
            assert rebalances.calls == [([], [ONE])]
        else:
            assert cluster.claims == [[], []]
            assert rebalances.calls == [([ONE], []), ([], [ONE])]

    run(work, ClassicMembership, assignors=assignors)


@pytest.mark.parametrize("assignors", [("range",), (COOPERATIVE,)])
def test_who_leaves_because_nobody_polls_reads_nothing_meanwhile(assignors: tuple[str, ...]) -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await member.poll()
        cluster.is_silent = True
        member._polled = -1e9
        while not cluster.left:
            await asyncio.sleep(0)
        await member.poll()
        assert rebalances.calls == [([], [ONE]), ([ONE], []), ([], [ONE])]
        assert rebalances.members == [True, False, True]
        assert cluster.left == ["m"]

    run(work, ClassicMembership, assignors=assignors)


def test_a_listener_that_outlasts_the_poll_interval_keeps_nothing() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        async def pause() -> None:
            rebalances.pause = None
            cluster.is_silent = True
            member._polled = -1e9
            while not cluster.left:
                await asyncio.sleep(0)

        rebalances.pause = pause
        await member.poll()
        # The answer to its leave is still on its way.
        assert rebalances.calls == [([], [ONE]), ([ONE], []), ([], [ONE])]
        assert rebalances.members == [False, False, True]

    run(work, ClassicMembership)


def test_who_is_closed_while_it_leaves_waits_for_that() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, _: Rebalances) -> None:
        await member.poll()
        cluster.is_silent = True
        member._polled = -1e9
        while not cluster.left:
            await asyncio.sleep(0)
        closing = asyncio.ensure_future(member.leave())
        for _step in range(50):
            await asyncio.sleep(0)
        assert not closing.done()
        cluster.is_silent = False
        await closing
        assert cluster.left == ["m"]

    run(work, ClassicMembership)


def test_leaders_of_old_versions_learn_in_which_generation_a_cooperative_member_got_its_partitions() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, _: Rebalances) -> None:
        await member.poll()
        member.enforce_rebalance()
        await member.poll()
        assert cluster.claims == [[], [ONE]]
        assert cluster.user_data == [b"\xff\xff\xff\xff", b"\0\0\0\1"]

    run(work, ClassicMembership, assignors=(COOPERATIVE,))


def test_a_fenced_static_member_keeps_nothing() -> None:
    """Another member with its instance id has the partitions."""

    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await member.poll()
        cluster.errors.append(ErrorCode.FENCED_INSTANCE_ID)
        await member.wait()
        cluster.join_errors = [ErrorCode.FENCED_INSTANCE_ID] * 2
        for _ in range(2):
            with pytest.raises(KafkaError) as raised:
                await member.poll()
            assert raised.value.code == ErrorCode.FENCED_INSTANCE_ID
            # Before the join, whose answer a short poll does not wait for.
            assert rebalances.calls == [([], [ONE]), ([ONE], [])]
            assert rebalances.members == [True, False]
            assert member._member.member_id == "m"

    run(work, ClassicMembership, assignors=(COOPERATIVE,), group_instance_id="i")


def test_a_static_member_whose_join_is_fenced_keeps_nothing() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await member.poll()
        cluster.join_errors = [ErrorCode.FENCED_INSTANCE_ID] * 2
        member.enforce_rebalance()
        for _ in range(2):
            with pytest.raises(KafkaError):
                await member.poll()
        assert rebalances.calls == [([], [ONE]), ([ONE], [])]
        assert rebalances.members == [True, False]

    run(work, ClassicMembership, assignors=(COOPERATIVE,), group_instance_id="i")


def test_an_assignment_of_a_membership_that_ended_meanwhile_is_not_taken_over() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        # The poll does not wait for the join, which goes on.
        await member.poll(0.0)
        cluster.errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
        await member.wait()
        await member.poll()
        assert rebalances.calls == [([], [ONE])]
        assert rebalances.members == [True]

    run(work, ClassicMembership)


def test_a_static_leader_that_comes_back_looks_for_new_partitions() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        cluster.settings = replace(cluster.settings, metadata_age_max_ms=0)
        cluster.leads = cluster.skips = True
        cluster.assigned = [ONE, OTHER]
        await member.poll()
        cluster.skips = False
        new = TopicPartition("t", 2)
        cluster.metadata.topics["t"].partitions[2] = PartitionInfo(2, 1, 0, (), (), ())
        async with asyncio.timeout(5):
            await member.wait()
        await member.poll()
        assert rebalances.calls[-1] == ([], [ONE, OTHER, new])

    run(work, ClassicMembership, group_instance_id="i")
