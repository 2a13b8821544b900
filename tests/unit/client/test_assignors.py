"""Classic groups: everybody gets a fair share, nothing is read twice, and what can stay stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.assignors import ASSIGNORS, MemberSubscription, cooperative_sticky, range_assignor
from ottla.client.consumer.group_classic import decode_assignment, encode_assignment
from ottla.model.ids import TopicPartition

counts = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 7), min_size=1)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=40)
@given(counts=counts, members=st.integers(1, 5))
def test_every_partition_has_one_reader(name: str, counts: dict[str, int], members: int) -> None:
    subscriptions = {f"m{number}": MemberSubscription(tuple(counts), ()) for number in range(members)}
    result = ASSIGNORS[name](subscriptions, counts)
    listed = [one for partitions in result.values() for one in partitions]
    expected = {TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)}
    assert set(listed) == expected
    assert len(listed) == len(expected)
    if name != "range":
        sizes = [len(partitions) for partitions in result.values()]
        assert max(sizes) - min(sizes) <= 1


def test_range_keeps_neighbours_together() -> None:
    members = {name: MemberSubscription(("t",), ()) for name in ("m1", "m2")}
    result = range_assignor(members, {"t": 3})
    assert [one.partition for one in result["m1"]] == [0, 1]
    assert [one.partition for one in result["m2"]] == [2]


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


def test_an_assignment_travels() -> None:
    partitions = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]
    assert decode_assignment(memoryview(encode_assignment(partitions))) == partitions
    assert decode_assignment(memoryview(b"")) == []
