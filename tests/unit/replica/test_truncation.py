"""Logs that have parted from their leader's, and how they are brought together again."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.replica.followed_partition import truncation_offset
from ottla.wire.messages.fetch import FetchRequest
from tests.support.replica_cluster import ReplicaCluster


def fetches(cluster: ReplicaCluster, source: int = 2) -> list[FetchRequest]:
    return [
        request for sender, _, request in cluster.requests if sender == source and isinstance(request, FetchRequest)
    ]


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
        fetch_positions = [
            (wanted.last_fetched_epoch, wanted.fetch_offset)
            for f in fetches(pair)
            for t in f.topics
            for wanted in t.partitions
        ]
        assert fetch_positions[:3] == [(3, 14), (1, 5), (4, 13)]

    def test_several_rounds(self, pair: ReplicaCluster) -> None:
        """Leader and follower lack epochs of each other: every round truncates one epoch."""
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

    def test_the_high_watermark_is_told_after_a_cut(self, pair: ReplicaCluster) -> None:
        """It came with the response that named the divergence, and the leader does not repeat it."""
        pair.create_topic()
        pair[1].produce("a")
        pair.run(1_000)
        pair.cut_off(2)
        pair.elect(1, isr=[1])
        pair.run(60_000)
        pair[1].produce("b")
        assert pair[1].partition().high_watermark == 2
        for text in ("b", "lost"):
            pair[2].write(text, epoch=1)
        pair.reconnect()
        pair.run(5_000)
        assert pair[2].values() == ["a", "b"]
        assert pair[2].partition().high_watermark == 2

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

    def test_an_epoch_that_nothing_was_written_in_goes(self, pair: ReplicaCluster) -> None:
        """The epoch was recorded for a batch that did not fit on disk; the leader lacks it and names a lower epoch."""
        pair.create_topic()
        pair[1].produce("a")
        pair.run(1_000)
        pair.cut_off(2)
        pair[2].log().epochs.assign(1, 1)
        for _ in range(2):
            pair.elect(1)
        pair.reconnect()
        pair.run(5_000)
        pair[1].produce("b")
        pair.run(5_000)
        assert pair[2].values() == ["a", "b"]
        assert pair[2].log().epochs.entries == pair[1].log().epochs.entries

    def test_the_cleaner_is_told(self, pair: ReplicaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        truncations: list[tuple[TopicPartition, int]] = []
        monkeypatch.setattr(
            pair[2].logs.cleaner,
            "on_log_truncated",
            lambda log, offset: truncations.append((log.topic_partition, offset)),
        )
        pair.create_topic()
        pair[1].produce("a")
        pair.run()
        pair[2].write("lost", epoch=0)
        pair.elect(1)
        pair[1].produce("b")
        pair.run(1_000)
        assert truncations == [(TopicPartition("t", 0), 1)]
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
        """An unclean election, after which the follower cannot find the divergence by epochs."""
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
