"""The state of an unfinished batch, from the offsets of the sink's group."""

from __future__ import annotations

from ottla.client.admin.groups import CommittedOffset
from ottla.connect.api import OffsetRange
from ottla.connect.work.positions import committed_note, share_of, standing_of, started_note
from ottla.model.ids import TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
RANGES = (OffsetRange("t", 0, 5, 9), OffsetRange("t", 1, 2, 3))


def test_a_group_that_never_was_has_no_batch() -> None:
    standing = standing_of({}, [ONE, TWO], task=0)
    assert standing.positions == {}
    assert standing.unfinished == ()
    assert standing.batch_id == 0
    assert standing.epoch is None


def test_a_batch_that_was_noted_comes_again() -> None:
    committed = started_note(RANGES, batch_id=7, epoch="x", task=0)
    standing = standing_of(committed, [ONE, TWO], task=0)
    assert standing.unfinished == RANGES
    assert standing.batch_id == 7
    assert standing.epoch == "x"
    assert standing.positions == {ONE: 5, TWO: 2}


def test_a_batch_that_was_written_is_behind() -> None:
    committed = committed_note(RANGES, batch_id=7, epoch="x", task=0)
    standing = standing_of(committed, [ONE, TWO], task=0)
    assert standing.unfinished == ()
    assert standing.batch_id == 8
    assert standing.positions == {ONE: 9, TWO: 3}


def test_partitions_of_older_batches_do_not_come_again() -> None:
    committed = {
        **committed_note(RANGES[:1], batch_id=6, epoch="x", task=0),
        **started_note(RANGES[1:], batch_id=7, epoch="x", task=0),
    }
    standing = standing_of(committed, [ONE, TWO], task=0)
    assert standing.unfinished == RANGES[1:]
    assert standing.batch_id == 7


def test_a_batch_of_another_division_is_not_taken_over_in_part() -> None:
    committed = started_note(RANGES, batch_id=7, epoch="x", task=0)
    standing = standing_of(committed, [ONE], task=0)
    assert standing.unfinished == ()
    assert standing.batch_id == 8
    assert standing.positions == {ONE: 5}
    assert standing_of(committed, [ONE, TWO], task=1).unfinished == ()


def test_ids_go_on_where_any_task_of_the_connector_was() -> None:
    committed = {
        **committed_note(RANGES[:1], batch_id=6, epoch="x", task=0),
        **committed_note(RANGES[1:], batch_id=40, epoch="y", task=1),
    }
    standing = standing_of(committed, [ONE], task=0)
    assert (standing.batch_id, standing.epoch) == (41, "y")


def test_offsets_that_were_set_from_outside_count() -> None:
    standing = standing_of({ONE: CommittedOffset(100, -1, "by hand")}, [ONE], task=0)
    assert standing.positions == {ONE: 100}
    assert standing.batch_id == 0


def test_every_partition_has_one_task_whatever_else_is_there() -> None:
    partitions = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(7)]
    shares = [share_of(partitions, task=number, count=3) for number in range(3)]
    assert sorted(partition for share in shares for partition in share) == sorted(partitions)
    more = [*partitions, *(TopicPartition("aa", number) for number in range(5))]
    assert set(shares[1]) <= set(share_of(more, task=1, count=3))


def test_of_a_topic_that_was_made_again_only_what_is_of_the_new_one_counts() -> None:
    committed = {
        **committed_note(RANGES[:1], batch_id=6, epoch="x", task=0, topic_ids={"t": "new"}),
        **started_note(RANGES[1:], batch_id=7, epoch="x", task=0, topic_ids={"t": "old"}),
    }
    standing = standing_of(committed, [ONE, TWO], task=0, topic_ids={"t": "new"})
    assert standing.positions == {ONE: 9}
    assert standing.recreated == {TWO}
    assert standing.unfinished == ()
    assert standing.batch_id == 8


def test_what_was_noted_without_an_id_is_of_the_topic_that_is_there() -> None:
    committed = started_note(RANGES, batch_id=7, epoch="x", task=0)
    standing = standing_of(committed, [ONE, TWO], task=0, topic_ids={"t": "new"})
    assert standing.unfinished == RANGES
    assert standing.recreated == frozenset()
    noted = started_note(RANGES, batch_id=7, epoch="x", task=0, topic_ids={"t": "old"})
    assert standing_of(noted, [ONE, TWO], task=0, topic_ids={"t": ""}).unfinished == RANGES


def test_a_batch_goes_on_without_the_topic_that_was_made_again() -> None:
    other = OffsetRange("u", 0, 1, 4)
    both = {"t": "old", "u": "same"}
    committed = started_note((*RANGES, other), batch_id=7, epoch="x", task=0, topic_ids=both)
    mine = [ONE, TWO, TopicPartition("u", 0)]
    standing = standing_of(committed, mine, task=0, topic_ids={"t": "new", "u": "same"})
    assert standing.unfinished == (other,)
    assert standing.batch_id == 7
