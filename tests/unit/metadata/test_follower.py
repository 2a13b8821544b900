"""Images made from the log by a node that does not decide: the controller's own, step by step or in one leap."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.metadata.controller import Controller
from ottla.metadata.delta import CorruptMetadataError, MetadataDelta
from ottla.metadata.follower import MetadataFollower
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType
from ottla.metadata.image_step import step_between
from ottla.metadata.loader import load_image
from ottla.metadata.snapshot_policy import write_image
from ottla.metadata.versions import encode_for
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.model.ids import Uuid
from ottla.model.slices import finish
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.metadata.harness import CLUSTER_ID, DIRECTORY, ControllerHarness, done


class Watcher:
    def __init__(self) -> None:
        self.deltas: list[MetadataDelta] = []
        self.images: list[MetadataImage] = []

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.deltas.append(delta)
        self.images.append(image)


@pytest.fixture
def harness() -> ControllerHarness:
    controller_harness = ControllerHarness()
    for broker_id in (1, 2, 3):
        controller_harness.add_broker(broker_id)
    controller_harness.create("kept", 3, 2)
    controller_harness.create("deleted", 2, 2)
    return controller_harness


def follower_of(harness: ControllerHarness) -> tuple[MetadataFollower, Watcher]:
    follower = MetadataFollower(
        world=harness.world, log=harness.controller.log, config=harness.config, cluster_id=CLUSTER_ID
    )
    watcher = Watcher()
    follower.publishers.add(watcher)
    return follower, watcher


def change_everything(harness: ControllerHarness) -> None:
    """Changes something of every kind that publishers are notified of."""
    controller = harness.controller
    done(controller.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="deleted")])))
    harness.create("created", 2, 3)
    extend = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="kept", count=4, assignments=None)])
    done(controller.ask(extend))
    setting = AlterableConfig(name="retention.ms", config_operation=0, value="77")
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="kept", configs=[setting])
    done(controller.ask(IncrementalAlterConfigsRequest(resources=[resource])))
    done(controller.ask(UnregisterBrokerRequest(broker_id=3)))
    harness.add_broker(4)


def summary_of(delta: MetadataDelta) -> dict[str, Any]:
    return {
        "deleted": {topic.name for topic in delta.topics.deleted.values()},
        "changed": {topic_delta.name: topic_delta.changed for topic_delta in delta.topics.changed.values()},
        "created": {topic_delta.name for topic_delta in delta.topics.changed.values() if topic_delta.created},
        "brokers": delta.brokers_changed,
    }


def same(image: MetadataImage, other: MetadataImage) -> bool:
    """True if the images have the same content; topics are compared by value."""
    topics = [
        {name: (topic.topic_id, dict(topic.partitions)) for name, topic in compared.topics.by_name.items()}
        for compared in (image, other)
    ]
    configs = [dict(compared.configs.by_resource) for compared in (image, other)]
    rest = [
        (compared.cluster, compared.features, compared.producer_ids, compared.offset, compared.epoch)
        for compared in (image, other)
    ]
    return topics[0] == topics[1] and configs[0] == configs[1] and rest[0] == rest[1]


def test_a_follower_begins_with_what_is_there_and_advances_with_the_log(harness: ControllerHarness) -> None:
    follower, watcher = follower_of(harness)
    assert same(follower.image, harness.image)
    follower.advance()
    assert watcher.images == []
    change_everything(harness)
    follower.advance()
    assert same(follower.image, harness.image)
    # Many batches came at once, and were published at once.
    assert watcher.images == [follower.image]
    assert summary_of(watcher.deltas[0])["deleted"] == {"deleted"}
    harness.create("later")
    follower.advance()
    assert len(watcher.images) == 2
    assert "later" in follower.image.topics.by_name


def test_a_leap_tells_the_same_as_the_steps(harness: ControllerHarness) -> None:
    follower, watcher = follower_of(harness)
    before = follower.image
    change_everything(harness)
    follower.advance()
    leap = finish(step_between(before, harness.image))
    assert summary_of(leap) == summary_of(watcher.deltas[0])
    kept = ConfigResource(ResourceType.TOPIC, "kept")
    assert (
        leap.configs_changed
        == {kept}
        == watcher.deltas[0].configs_changed
        - {
            # A deleted topic deletes its configuration, too; this topic had none.
            ConfigResource(ResourceType.TOPIC, "deleted")
        }
    )
    assert set(leap.topics.changed[harness.image.topics.by_name["kept"].topic_id].changed) >= {3}


def test_nothing_is_told_of_a_leap_to_the_same_place(harness: ControllerHarness) -> None:
    delta = finish(step_between(harness.image, harness.image))
    assert summary_of(delta) == {"deleted": set(), "changed": {}, "created": set(), "brokers": set()}
    assert not delta.configs_changed | delta.features_changed | delta.acls_changed | delta.quotas_changed


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_snapshot_in_the_place_of_records_is_published_as_one_change(
    harness: ControllerHarness, *, is_followed: bool
) -> None:
    """Also before there are partitions: quotas are known from the start, and a new broker begins with a snapshot."""
    follower, watcher = follower_of(harness)
    change_everything(harness)
    done(write_image(harness.controller.log, harness.image))
    harness.create("after the snapshot".replace(" ", "-"))
    follower.reload(is_followed=is_followed)
    assert same(follower.image, harness.image)
    (delta,) = watcher.deltas
    assert summary_of(delta)["deleted"] == {"deleted"}
    assert summary_of(delta)["created"] == {"created", "after-the-snapshot"}
    harness.create("and-on")
    follower.advance()
    assert same(follower.image, harness.image)


def test_what_was_committed_is_never_taken_back_from_those_who_follow(harness: ControllerHarness) -> None:
    follower, watcher = follower_of(harness)
    older = ControllerHarness()
    follower._log = older.controller.log
    with pytest.raises(CorruptMetadataError, match="restart this node"):
        follower.reload(is_followed=True)
    assert watcher.images == []
    # Without followers the leader's log alone is enough.
    follower.reload(is_followed=False)
    assert follower.image.offset == older.image.offset


def test_a_large_batch_is_replayed_in_turns_and_published_as_a_whole(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.metadata.follower.RECORDS_PER_TURN", 10)
    follower, watcher = follower_of(harness)
    before = follower.image
    harness.create("large", 35, 2)
    harness.create("small", 1, 1)
    follower.advance(in_turns=True)
    turns = 1
    while follower.image is before:
        # Newly committed batches wait for their turn, too.
        follower.advance(in_turns=True)
        harness.virtual.scheduler.run_turn()
        turns += 1
        assert turns < 100
    # The topic and its partitions are 36 records.
    assert turns == 4
    assert len(follower.image.topics.by_name["large"].partitions) == 35
    harness.virtual.scheduler.run()
    assert same(follower.image, harness.image)
    assert all(len(delta.topics.changed) == 1 or len(watcher.deltas) == 1 for delta in watcher.deltas)


def test_whoever_needs_the_newest_image_does_not_wait_for_the_turns(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.metadata.follower.RECORDS_PER_TURN", 10)
    follower, watcher = follower_of(harness)
    harness.create("large", 35, 2)
    follower.advance(in_turns=True)
    assert watcher.images == []
    follower.advance()
    assert same(follower.image, harness.image)
    # The turn that was planned finds nothing.
    harness.virtual.scheduler.run()
    assert len(watcher.images) == 1


def test_a_replaced_log_ends_what_was_begun(harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.metadata.follower.RECORDS_PER_TURN", 10)
    follower, watcher = follower_of(harness)
    harness.create("large", 35, 2)
    follower.advance(in_turns=True)
    follower.reload(is_followed=True)
    harness.virtual.scheduler.run()
    assert same(follower.image, harness.image)
    assert len(watcher.images) == 1


def turns_until_published(harness: ControllerHarness, watcher: Watcher) -> int:
    turns = 0
    while not watcher.images:
        harness.virtual.scheduler.run_turn()
        turns += 1
        assert turns < 1000
    return turns


@pytest.fixture
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.metadata.follower.RECORDS_PER_TURN", 10)
    for module in ("image_step", "topics_delta"):
        monkeypatch.setattr(f"ottla.metadata.{module}.PARTITIONS_PER_SLICE", 30)
    for module in ("image_step", "delta"):
        monkeypatch.setattr(f"ottla.metadata.{module}.ENTRIES_PER_SLICE", 3)


@pytest.mark.usefixtures("small_turns")
def test_a_snapshot_is_loaded_in_turns_and_published_as_a_whole(harness: ControllerHarness) -> None:
    follower, watcher = follower_of(harness)
    before = follower.image
    change_everything(harness)
    harness.create("large", 95, 2)
    done(write_image(harness.controller.log, harness.image))
    snapshot_offset = harness.image.offset
    harness.create("after", 25, 2)
    follower.reload(is_followed=True, in_turns=True)
    assert follower.image is before
    harness.virtual.scheduler.run_turn()
    harness.create("meanwhile")
    # Newly committed batches wait for the load.
    follower.advance(in_turns=True)
    assert follower.image is before
    # Some 120 records in the snapshot and 26 after it, and about as many partitions to compare.
    assert turns_until_published(harness, watcher) > 20
    assert follower.image.offset > snapshot_offset
    harness.virtual.scheduler.run()
    assert same(follower.image, harness.image)
    assert summary_of(watcher.deltas[0])["deleted"] == {"deleted"}
    assert summary_of(watcher.deltas[0])["created"] >= {"created", "large", "after"}
    assert follower.publishers.failures == 0


@pytest.mark.usefixtures("small_turns")
def test_another_snapshot_begins_the_load_again(harness: ControllerHarness) -> None:
    follower, watcher = follower_of(harness)
    harness.create("first", 95, 2)
    done(write_image(harness.controller.log, harness.image))
    follower.reload(is_followed=True, in_turns=True)
    for _ in range(3):
        harness.virtual.scheduler.run_turn()
    harness.create("second", 95, 2)
    done(write_image(harness.controller.log, harness.image))
    follower.reload(is_followed=True, in_turns=True)
    harness.virtual.scheduler.run()
    assert same(follower.image, harness.image)
    assert len(watcher.images) == 1


@pytest.mark.usefixtures("small_turns")
def test_a_new_leader_does_not_wait_for_the_turns_of_a_load(harness: ControllerHarness) -> None:
    follower, watcher = follower_of(harness)
    harness.create("large", 95, 2)
    done(write_image(harness.controller.log, harness.image))
    harness.create("after")
    follower.reload(is_followed=True, in_turns=True)
    harness.virtual.scheduler.run_turn()
    harness.create("and-on")
    follower.advance()
    assert same(follower.image, harness.image)
    published = len(watcher.images)
    # The turn that was planned finds nothing.
    harness.virtual.scheduler.run()
    assert len(watcher.images) == published


@pytest.mark.usefixtures("small_turns")
def test_a_load_that_ends_before_what_was_published_stops_the_node(harness: ControllerHarness) -> None:
    follower, watcher = follower_of(harness)
    follower._log = ControllerHarness().controller.log
    with pytest.raises(CorruptMetadataError, match="restart this node"):
        follower.reload(is_followed=True, in_turns=True)
    assert watcher.images == []


@pytest.mark.usefixtures("small_turns")
def test_a_load_is_tried_again_after_an_error_of_the_disk(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower, watcher = follower_of(harness)
    harness.create("large", 95, 2)
    done(write_image(harness.controller.log, harness.image))
    harness.create("after", 25, 2)
    read = follower._log.committed_batches
    failures = [OSError("input/output error")]

    def failing(from_offset: int) -> Any:
        if failures:
            raise failures.pop()
        return read(from_offset)

    monkeypatch.setattr(follower._log, "committed_batches", failing)
    follower.reload(is_followed=True, in_turns=True)
    with pytest.raises(OSError, match="input/output error"):
        harness.virtual.scheduler.run()
    assert watcher.images == []
    harness.virtual.scheduler.advance(1000)
    assert same(follower.image, harness.image)
    assert len(watcher.images) == 1


# Metadata transactions (KIP-868), which only controllers of Apache Kafka write.

HALF = [r.BeginTransactionRecord(name="half"), r.TopicRecord(name="half", topic_id=Uuid(b"0123456789abcdef"))]
OTHER_HALF = [r.TopicRecord(name="other-half", topic_id=Uuid(b"fedcba9876543210")), r.EndTransactionRecord()]


def append(harness: ControllerHarness, records: list[Any]) -> None:
    harness.log.append([encode_for(record, 30) for record in records])


def test_a_follower_that_starts_inside_a_transaction_has_all_of_it_at_its_end(harness: ControllerHarness) -> None:
    append(harness, HALF)
    follower, _ = follower_of(harness)
    assert "half" not in follower.image.topics.by_name
    append(harness, OTHER_HALF)
    follower.advance()
    assert {"half", "other-half"} <= set(follower.image.topics.by_name)


@pytest.mark.parametrize("in_turns", [False, True])
def test_a_snapshot_before_an_open_transaction_does_not_lose_it(harness: ControllerHarness, *, in_turns: bool) -> None:
    follower, _ = follower_of(harness)
    done(write_image(harness.controller.log, harness.image))
    append(harness, HALF)
    follower.reload(is_followed=True, in_turns=in_turns)
    harness.virtual.scheduler.run()
    append(harness, OTHER_HALF)
    follower.advance()
    assert {"half", "other-half"} <= set(follower.image.topics.by_name)


def test_no_snapshot_is_written_inside_a_transaction(harness: ControllerHarness) -> None:
    """The snapshot would lack the first half, and a start from it would replay an end without a beginning."""
    config = BrokerConfig.embedded({"metadata.log.max.record.bytes.between.snapshots": "1"})
    follower = MetadataFollower(world=harness.world, log=harness.controller.log, config=config, cluster_id=CLUSTER_ID)
    append(harness, HALF)
    follower.advance()
    assert follower.snapshots.written == 0
    append(harness, OTHER_HALF)
    follower.advance()
    assert follower.snapshots.written == 1
    again, _ = follower_of(harness)
    assert {"half", "other-half"} <= set(again.image.topics.by_name)


# Loads and replays that fail.


def test_a_log_that_went_back_is_noticed_before_it_has_grown_again(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.metadata.follower.RECORDS_PER_TURN", 10)
    follower, _ = follower_of(harness)
    other = ControllerHarness()
    for broker_id in (1, 2):
        other.add_broker(broker_id)
    assert other.image.offset < follower.image.offset
    follower._log = other.controller.log
    with pytest.raises(CorruptMetadataError, match="restart this node"):
        follower.reload(is_followed=True, in_turns=True)


def test_a_load_that_failed_is_not_taken_for_done(harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is elected during the load, and ends it at once."""
    monkeypatch.setattr("ottla.metadata.follower.RECORDS_PER_TURN", 10)
    follower, _ = follower_of(harness)
    before = follower.image
    harness.create("in-the-snapshot", 30, 2)
    image = harness.image
    unknown = r.PartitionChangeRecord(partition_id=1, topic_id=Uuid(b"0123456789abcdef"), leader=1)
    written = harness.log.write_snapshot(
        end_offset=image.offset + 1, epoch=image.epoch, values=[encode_for(unknown, 20)], last_contained_timestamp_ms=1
    )
    done(written)
    # As after the installation of a snapshot: the log begins there.
    harness.log._journal.roll()
    harness.log._journal.delete_before(image.offset + 1)
    follower.reload(is_followed=True, in_turns=True)
    with pytest.raises(CorruptMetadataError):
        follower.advance()
    harness.create("after", 1, 1)
    with pytest.raises(CorruptMetadataError):
        # The turn that was planned.
        harness.virtual.scheduler.run()
    assert follower.image is before


def test_an_error_of_the_disk_inside_a_transaction(harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    follower, _ = follower_of(harness)
    append(harness, HALF)
    append(harness, OTHER_HALF)
    read = follower._log.committed_batches
    errors = [OSError(errno.EIO, "input/output error")]

    def failing_once(from_offset: int) -> Iterator[Any]:
        for number, batch in enumerate(read(from_offset)):
            if number == 1 and errors:
                raise errors.pop()
            yield batch

    monkeypatch.setattr(follower._log, "committed_batches", failing_once)
    with pytest.raises(OSError, match="input/output error"):
        follower.advance()
    harness.virtual.scheduler.advance(1_000)
    assert {"half", "other-half"} <= set(follower.image.topics.by_name)


def test_the_end_of_a_transaction_that_a_full_disk_refuses(harness: ControllerHarness) -> None:
    """A decision behind it would be dropped with the transaction."""
    append(harness, HALF)
    controller = Controller(
        world=harness.world,
        log=harness.log,
        config=harness.config,
        cluster_id=CLUSTER_ID,
        metadata_log_dir=DIRECTORY,
    )

    def create(name: str) -> Deferred[Any]:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        return controller.ask(CreateTopicsRequest(topics=[topic]))

    full = OSError(errno.ENOSPC, "no space left on device")
    harness.memory.fail_next("append", full)
    controller.activate()
    harness.memory.fail_next("append", full)
    assert isinstance(create("refused").error, KafkaError)
    assert done(create("acknowledged")).topics[0].error_code == 0
    topics = load_image(harness.log, cluster_id=CLUSTER_ID).image.topics.by_name
    assert "acknowledged" in topics
    assert "half" not in topics
    controller.invariants()
