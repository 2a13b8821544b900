"""How far groups are behind."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ottla.broker.group_coordination import GroupCoordination
from ottla.coordinator.group.lag import GroupLag, PartitionLag
from ottla.wire.messages import metadata_records as r
from tests.support.group_path import GroupPath


def lags(path: GroupPath) -> dict[str, GroupLag]:
    return {lag.group_id: lag for lag in path.groups.lags() if lag is not None}


def test_lag_is_the_way_to_the_high_watermark(path: GroupPath) -> None:
    path.append("t", "a", "b", "c")
    path.append("t", "a", index=1)
    path.commit_offsets("g", {("t", 1): 1, ("t", 0): 1})
    path.commit_offsets("h", {("t", 0): 0})
    now_ms = path.virtual.world.clock.now_ms()
    assert lags(path) == {
        "g": GroupLag("g", [PartitionLag("t", 0, 1, 3, now_ms), PartitionLag("t", 1, 1, 1, now_ms)]),
        "h": GroupLag("h", [PartitionLag("t", 0, 0, 3, now_ms)]),
    }
    group_lag = lags(path)["g"]
    assert [partition.lag for partition in group_lag.partitions] == [2, 0]
    assert (group_lag.total, group_lag.largest, group_lag.unknown_partitions) == (2, 2, 0)
    path.append("t", "d")
    assert (lags(path)["g"].total, lags(path)["h"].total) == (3, 4)


def test_what_is_not_committed_by_all_replicas_is_nothing_to_wait_for(path: GroupPath) -> None:
    path.create_topic("two", replicas=(1, 2))
    path.append("two", "a", "b")
    path.commit_offsets("g", {("two", 0): 0})
    partition = path.partition("two")
    assert partition.log.log_end_offset == 2
    assert lags(path)["g"].total == partition.high_watermark == 0


def test_a_commit_beyond_the_end_leaves_nothing_to_read(path: GroupPath) -> None:
    path.commit_offsets("g", {("t", 0): 5})
    assert lags(path)["g"].partitions[0].lag == 0


def test_the_lag_of_a_partition_led_elsewhere_is_unknown(path: GroupPath) -> None:
    path.create_topic("far", replicas=(2,), leader=2)
    path.create_topic("followed", replicas=(1, 2), leader=2)
    path.append("t", "a")
    path.commit_offsets("g", {("far", 0): 4, ("followed", 0): 2, ("t", 0): 0})
    group_lag = lags(path)["g"]
    assert [partition.lag for partition in group_lag.partitions] == [None, None, 1]
    assert (group_lag.total, group_lag.largest, group_lag.unknown_partitions) == (1, 1, 2)


def test_offsets_of_topics_that_are_gone_do_not_count(path: GroupPath) -> None:
    topic_id = path.create_topic("gone")
    path.append("gone", "a")
    path.commit_offsets("g", {("gone", 0): 0}, version=9)
    assert lags(path)["g"].total == 1
    path.commit(r.RemoveTopicRecord(topic_id=topic_id))
    path.run()
    assert lags(path) == {}


def test_asking_makes_no_coordinator(path: GroupPath) -> None:
    coordination = GroupCoordination(SimpleNamespace())  # type: ignore[arg-type]
    assert list(coordination.lags()) == []


def test_many_offsets_and_groups_are_looked_at_with_pauses(path: GroupPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.group.lag.PARTITIONS_PER_STEP", 2)
    path.commit_offsets("g", {("t", index): 1 for index in range(3)})
    assert [lag if lag is None else lag.group_id for lag in path.groups.lags()] == [None, "g"]
