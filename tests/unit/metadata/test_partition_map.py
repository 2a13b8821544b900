"""The partitions of large topics: as a dict, but a change copies a chunk only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.partition_map import PLAIN_MAX, PartitionMap, frozen_partitions

INDEXES = st.integers(min_value=0, max_value=2000)


def large(count: int = PLAIN_MAX + 1) -> PartitionMap[str]:
    frozen = frozen_partitions({index: f"p{index}" for index in range(count)})
    assert isinstance(frozen, PartitionMap)
    return frozen


def test_a_small_topic_keeps_its_dict() -> None:
    partitions = dict.fromkeys(range(PLAIN_MAX), "p")
    assert frozen_partitions(partitions) is partitions


@given(st.lists(INDEXES, max_size=30))
def test_a_changed_map_equals_a_changed_dict_and_leaves_the_former_map_alone(changes: list[int]) -> None:
    before = large()
    kept = dict(before)
    expected = dict(before)
    builder = before.builder()
    for number, index in enumerate(changes):
        assert builder.get(index) == expected.get(index)
        builder[index] = expected[index] = f"change {number}"
    after = builder.build()
    assert dict(before.items()) == kept
    assert (dict(after), dict(after.items()), len(after)) == (expected, expected, len(expected))
    assert sorted(after.values()) == sorted(expected.values())
    assert [after.get(index) for index in range(2001)] == [expected.get(index) for index in range(2001)]
    assert [index in after for index in range(2001)] == [index in expected for index in range(2001)]


def test_partitions_are_iterated_in_the_order_of_their_creation() -> None:
    assert list(large(3000)) == list(range(3000))
    builder = large(3000).builder()
    builder[5] = "changed"
    assert list(builder.build()) == list(range(3000))


def test_a_change_shares_all_other_chunks() -> None:
    before = large(10_000)
    builder = before.builder()
    builder[300] = "changed"
    after = builder.build()
    copied = [number for number, chunk in after.chunks.items() if chunk is not before.chunks[number]]
    assert copied == [1]


def test_a_builder_goes_on_after_a_build() -> None:
    builder = large().builder()
    builder[3] = "first"
    first = builder.build()
    builder[3] = "second"
    assert (first[3], builder.build()[3]) == ("first", "second")
