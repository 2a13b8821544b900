"""How a batch is limited and cut into tasks."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.model.ids import TopicPartition
from ottla.spark.source.limits import Lag, limit_offsets, split
from ottla.spark.source.offsets import SourceOffset

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5))
lags = st.dictionaries(
    partitions, st.builds(lambda start, size: Lag(start, start + size), st.integers(0, 10**6), st.integers(1, 10**5))
)


@given(lags, st.integers(1, 10**6))
def test_a_limited_batch_moves_every_partition_and_is_no_larger_than_it_may_be(
    partition_lags: dict[TopicPartition, Lag], limit: int
) -> None:
    ends = limit_offsets(partition_lags, limit)
    assert set(ends) == set(partition_lags)
    assert all(lag.start < ends[partition] <= lag.end for partition, lag in partition_lags.items())
    taken = sum(ends[partition] - lag.start for partition, lag in partition_lags.items())
    assert taken <= max(limit, len(partition_lags))
    if sum(lag.size for lag in partition_lags.values()) <= limit:
        assert all(ends[partition] == lag.end for partition, lag in partition_lags.items())


def test_weights_count() -> None:
    light, heavy = TopicPartition("light", 0), TopicPartition("heavy", 0)
    ends = limit_offsets({light: Lag(0, 100), heavy: Lag(0, 100)}, 1_010, {light: 1.0, heavy: 100.0})
    assert ends == {light: 10, heavy: 10}


@given(lags, st.none() | st.integers(1, 50))
def test_pieces_are_the_whole(partition_lags: dict[TopicPartition, Lag], at_least: int | None) -> None:
    pieces = split(partition_lags, at_least)
    for partition, lag in partition_lags.items():
        own = [piece for piece_partition, piece in pieces if piece_partition == partition]
        assert own[0].start == lag.start
        assert own[-1].end == lag.end
        assert all(left.end == right.start for left, right in pairwise(own))
        assert all(piece.size > 0 for piece in own)
    if at_least is None:
        assert len(pieces) == len(partition_lags)


def test_what_has_nothing_is_one_piece() -> None:
    empty = TopicPartition("a", 0)
    assert split({empty: Lag(3, 3)}, 5) == [(empty, Lag(3, 3))]


@given(
    st.dictionaries(partitions, st.integers(0, 1 << 60)),
    st.dictionaries(st.sampled_from(["a", "b"]), st.text(min_size=1)),
    st.dictionaries(partitions, st.integers(-1, 100)),
    st.dictionaries(partitions, st.integers(0, 1 << 60)),
)
def test_offsets_come_back_from_json(
    offsets: dict[TopicPartition, int],
    ids: dict[str, str],
    lost: dict[TopicPartition, int],
    begins: dict[TopicPartition, int],
) -> None:
    offset = SourceOffset(offsets, ids, lost, begins)
    assert SourceOffset.from_json(offset.to_json()) == offset
