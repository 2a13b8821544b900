"""Classic groups: shares are fair, no partition has two owners, and partitions keep their owners where possible."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.assignors import ASSIGNORS, MemberSubscription, cooperative_sticky, range_assignor, sticky
from ottla.client.consumer.group_classic import decode_assignment, encode_assignment
from ottla.client.consumer.previous import decode_previous, encode_previous
from ottla.model.ids import TopicPartition

counts = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 7), min_size=1)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=40)
@given(counts=counts, members=st.integers(1, 5))
def test_every_partition_has_one_reader(name: str, counts: dict[str, int], members: int) -> None:
    subscriptions = {f"m{number}": MemberSubscription(tuple(counts), ()) for number in range(members)}
    result = ASSIGNORS[name](subscriptions, counts, {})
    listed = [partition for partitions in result.values() for partition in partitions]
    expected = {TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)}
    assert set(listed) == expected
    assert len(listed) == len(expected)
    if name != "range":
        sizes = [len(partitions) for partitions in result.values()]
        assert max(sizes) - min(sizes) <= 1


def test_range_keeps_neighbours_together() -> None:
    members = {name: MemberSubscription(("t",), ()) for name in ("m1", "m2")}
    result = range_assignor(members, {"t": 3})
    assert [partition.partition for partition in result["m1"]] == [0, 1]
    assert [partition.partition for partition in result["m2"]] == [2]


def test_what_moves_is_first_given_up() -> None:
    owned = tuple(TopicPartition("t", number) for number in range(4))
    members = {"old": MemberSubscription(("t",), owned, 1), "new": MemberSubscription(("t",), ())}
    first = cooperative_sticky(members, {"t": 4})
    assert len(first["old"]) == 2
    assert first["new"] == []
    members["old"] = MemberSubscription(("t",), tuple(first["old"]), 2)
    second = cooperative_sticky(members, {"t": 4})
    assert second["old"] == first["old"]
    assert len(second["new"]) == 2


def test_what_two_members_claim_is_first_given_up_by_both() -> None:
    disputed = TopicPartition("t", 0)
    members = {name: MemberSubscription(("t",), (disputed,), 5) for name in ("m1", "m2")}
    members["m0"] = MemberSubscription(("t",), ())
    first = cooperative_sticky(members, {"t": 1})
    assert first == {"m0": [], "m1": [], "m2": []}
    given_up = {name: MemberSubscription(("t",), (), 6) for name in members}
    assert list(filter(None, cooperative_sticky(given_up, {"t": 1}).values())) == [[disputed]]


def test_an_assignment_travels() -> None:
    partitions = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]
    assert decode_assignment(memoryview(encode_assignment(partitions))) == partitions
    assert decode_assignment(memoryview(b"")) == []


def test_equal_racks_are_preferred_where_shares_stay_fair() -> None:
    members = {f"m-{rack}": MemberSubscription(("t",), (), rack=rack) for rack in "abc"}
    racks = {TopicPartition("t", number): frozenset("cab"[number % 3]) for number in range(6)}
    for assign in (range_assignor, sticky):
        result = assign(members, {"t": 6}, racks)
        for member, partitions in result.items():
            assert len(partitions) == 2
            assert all(members[member].rack in racks[partition] for partition in partitions)


@settings(max_examples=60)
@given(
    topics=st.lists(st.sets(st.sampled_from(["a", "b", "c"]), min_size=1), min_size=1, max_size=6),
    counts=counts,
    data=st.data(),
)
def test_sticky_is_balanced_as_far_as_subscriptions_allow(
    topics: list[set[str]], counts: dict[str, int], data: st.DataObject
) -> None:
    everything = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    owners = data.draw(st.lists(st.integers(0, len(topics) - 1), min_size=len(everything), max_size=len(everything)))
    members = {
        f"m{number}": MemberSubscription(
            tuple(sorted(wanted)),
            tuple(partition for partition, owner in zip(everything, owners, strict=True) if owner == number),
            1,
        )
        for number, wanted in enumerate(topics)
    }
    result = sticky(members, counts)
    listed = [partition for partitions in result.values() for partition in partitions]
    read = {topic for wanted in topics for topic in wanted}
    assert sorted(listed) == sorted(partition for partition in everything if partition.topic in read)
    for member, partitions in result.items():
        for partition in partitions:
            able = [name for name, other in members.items() if partition.topic in other.topics]
            assert member in able
            assert len(partitions) - min(len(result[name]) for name in able) <= 1


def test_a_sticky_member_tells_what_it_had() -> None:
    partitions = [TopicPartition("a", 3), TopicPartition("ü", 0), TopicPartition("a", 1)]
    previous, generation = decode_previous(encode_previous(partitions, 9))
    assert (sorted(previous), generation) == (sorted(partitions), 9)
    assert decode_previous(b"\0\0\0\7nonsense") == ([], -1)
