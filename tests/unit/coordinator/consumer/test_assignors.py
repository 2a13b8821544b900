"""Server-side assignors: everything subscribed is assigned once, evenly, and stays where it can."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.consumer.assignors import ASSIGNORS, AssignmentSpec, MemberSpec, Targets, TopicSpec
from ottla.model.ids import Uuid
from tests.support.steps import steps_of

TOPIC_IDS = [Uuid(bytes([0] * 15 + [number])) for number in range(1, 7)]
A, B = TOPIC_IDS[:2]


def spec_of(
    subscriptions: dict[str, frozenset[Uuid]],
    counts: dict[Uuid, int],
    previous: Targets | None = None,
    racks: dict[str, str] | None = None,
    topic_racks: dict[Uuid, tuple[frozenset[str], ...]] | None = None,
) -> AssignmentSpec:
    return AssignmentSpec(
        {
            member_id: MemberSpec(topics, (previous or {}).get(member_id, {}), (racks or {}).get(member_id))
            for member_id, topics in subscriptions.items()
        },
        {
            topic_id: TopicSpec(topic_id, count, (topic_racks or {}).get(topic_id, ()))
            for topic_id, count in counts.items()
        },
    )


def all_of(targets: Targets) -> list[tuple[Uuid, int]]:
    return [(topic, part) for target in targets.values() for topic, parts in target.items() for part in parts]


def loads(targets: Targets) -> list[int]:
    return sorted(sum(map(len, target.values())) for target in targets.values())


def moved(before: Targets, after: Targets) -> int:
    owner = {(topic, index): member for member, target in before.items() for topic in target for index in target[topic]}
    return sum(
        owner.get((topic, index), member) != member
        for member, target in after.items()
        for topic in target
        for index in target[topic]
    )


counts_strategy = st.dictionaries(st.sampled_from(TOPIC_IDS), st.integers(1, 12), min_size=1)


@st.composite
def any_spec(draw: st.DrawFn) -> AssignmentSpec:
    counts = draw(counts_strategy)
    members = draw(st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=8, unique=True))
    topics = st.frozensets(st.sampled_from(sorted(counts, key=lambda topic_id: topic_id.bytes)))
    return spec_of({member_id: draw(topics) for member_id in members}, counts)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(spec=any_spec())
@settings(max_examples=60, deadline=None)
def test_every_subscribed_partition_has_one_owner_that_subscribes(name: str, spec: AssignmentSpec) -> None:
    targets = ASSIGNORS[name](spec)
    assert targets.keys() == spec.members.keys()
    wanted = {topic for member in spec.members.values() for topic in member.topic_ids}
    assert sorted(all_of(targets), key=lambda pair: (pair[0].bytes, pair[1])) == sorted(
        ((topic, index) for topic in wanted for index in range(spec.topics[topic].partition_count)),
        key=lambda pair: (pair[0].bytes, pair[1]),
    )
    for member_id, target in targets.items():
        assert target.keys() <= spec.members[member_id].topic_ids
        assert all(target.values()), "no empty sets"


@given(counts=counts_strategy, size=st.integers(1, 9), change=st.integers(-3, 3))
@settings(max_examples=60, deadline=None)
def test_uniform_is_even_and_moves_no_more_than_it_must(counts: dict[Uuid, int], size: int, change: int) -> None:
    topics = frozenset(counts)
    before = ASSIGNORS["uniform"](spec_of({f"m{number}": topics for number in range(size)}, counts))
    assert loads(before)[-1] - loads(before)[0] <= 1
    again = ASSIGNORS["uniform"](spec_of({f"m{number}": topics for number in range(size)}, counts, before))
    assert again == before
    new_size = max(1, size + change)
    after = ASSIGNORS["uniform"](spec_of({f"m{number}": topics for number in range(new_size)}, counts, before))
    assert loads(after)[-1] - loads(after)[0] <= 1
    stayers = {member_id: target for member_id, target in before.items() if member_id in after}
    # A remaining member gives up only partitions above its new share.
    share = -(-sum(counts.values()) // new_size)
    surplus = sum(max(0, sum(map(len, target.values())) - share + 1) for target in stayers.values())
    assert moved(stayers, after) <= surplus


@given(spec=any_spec())
@settings(max_examples=60, deadline=None)
def test_uniform_leaves_no_move_that_would_make_loads_more_even(spec: AssignmentSpec) -> None:
    targets = ASSIGNORS["uniform"](spec)
    load = {member_id: sum(map(len, target.values())) for member_id, target in targets.items()}
    for member_id, target in targets.items():
        for topic in target:
            for other, member in spec.members.items():
                assert topic not in member.topic_ids or load[member_id] - load[other] <= 1


def test_range_gives_the_same_numbers_of_equal_topics_to_the_same_member() -> None:
    both = frozenset({A, B})
    targets = ASSIGNORS["range"](spec_of({"y": both, "x": both}, {A: 3, B: 3}))
    assert targets == {"x": {A: {0, 1}, B: {0, 1}}, "y": {A: {2}, B: {2}}}


def test_uniform_prefers_members_in_a_replicas_rack_within_their_share() -> None:
    racks = tuple(frozenset({"r1" if index % 2 else "r0"}) for index in range(6))
    spec = spec_of(
        {"a": frozenset({A}), "b": frozenset({A})}, {A: 6}, racks={"a": "r1", "b": "r0"}, topic_racks={A: racks}
    )
    assert ASSIGNORS["uniform"](spec) == {"a": {A: {1, 3, 5}}, "b": {A: {0, 2, 4}}}


def steps_to_rebalance(name: str, *, members: int, partitions: int, alike: bool) -> int:
    """The steps of an assignment with a new member; members subscribe to all topics (`alike`) or to some of them."""
    counts = dict.fromkeys(TOPIC_IDS, partitions // len(TOPIC_IDS))
    topics = [frozenset(TOPIC_IDS if alike else TOPIC_IDS[: number % len(TOPIC_IDS) + 1]) for number in range(members)]
    subscriptions = {f"m{number}": topic_ids for number, topic_ids in enumerate(topics)}
    before = ASSIGNORS[name](spec_of(subscriptions, counts))
    spec = spec_of({**subscriptions, "new": frozenset(counts)}, counts, before)
    return steps_of(lambda: ASSIGNORS[name](spec))


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "mixed"])
@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_work_grows_with_partitions_and_members_and_not_with_their_product(name: str, alike: bool) -> None:
    few = steps_to_rebalance(name, members=10, partitions=450, alike=alike)
    # For each partition and each member's topic a look or two; of those that have to move, one at each who may have it.
    assert few < (100 if alike else 1_000) * (450 + 11 * len(TOPIC_IDS))
    # Four times as many would be sixteen times the work if all were compared with all.
    assert steps_to_rebalance(name, members=10, partitions=1_800, alike=alike) < 6 * few
    assert steps_to_rebalance(name, members=40, partitions=450, alike=alike) < 6 * few
