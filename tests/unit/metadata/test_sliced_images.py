"""The image of a large snapshot is built in slices, between which a running node serves its clients."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.follower import MetadataFollower
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_step import step_between
from ottla.metadata.persistent import MapBuilder, PersistentMap
from ottla.metadata.snapshot_policy import write_image
from ottla.model.ids import Uuid
from ottla.model.slices import finish
from ottla.wire.messages import metadata_records as r
from tests.unit.metadata.harness import CLUSTER_ID, ControllerHarness, done


class Watcher:
    def __init__(self) -> None:
        self.images: list[MetadataImage] = []

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.images.append(image)


@pytest.fixture
def harness() -> ControllerHarness:
    controller_harness = ControllerHarness()
    controller_harness.add_broker(1)
    controller_harness.create("deleted", 2, 1)
    return controller_harness


@pytest.fixture
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.metadata.follower.RECORDS_PER_TURN", 10)
    for module in ("image_step", "topics_delta"):
        monkeypatch.setattr(f"ottla.metadata.{module}.PARTITIONS_PER_SLICE", 30)
    for module in ("image_step", "delta"):
        monkeypatch.setattr(f"ottla.metadata.{module}.ENTRIES_PER_SLICE", 3)


def content(image: MetadataImage) -> list[dict[Any, Any]]:
    """The maps that the slices build."""
    maps = [*image.topics, image.configs.by_resource, *image.acls]
    return [dict(mapping) for mapping in maps]


class WorkOfATurn:
    """Counts the topics, configurations and ACLs that are put into the maps of an image, until `take`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        put, remove = MapBuilder.__setitem__, MapBuilder.remove

        def count_put(builder: Any, key: Any, value: Any) -> None:
            self.count += 1
            put(builder, key, value)

        def count_remove(builder: Any, key: Any) -> None:
            self.count += 1
            remove(builder, key)

        monkeypatch.setattr(MapBuilder, "__setitem__", count_put)
        monkeypatch.setattr(MapBuilder, "remove", count_remove)

    def take(self) -> int:
        count, self.count = self.count, 0
        return count


def many_entries(count: int) -> list[Any]:
    """Topics, every second of them with a configuration, and ACLs."""
    records: list[Any] = []
    for number in range(count):
        topic_id = Uuid(number.to_bytes(16, "big"))
        name = f"many.{number}"
        records.append(r.TopicRecord(name=name, topic_id=topic_id))
        records.append(
            r.PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1, directories=[])
        )
        if number % 2:
            records.append(r.ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value="77"))
        entry = r.AccessControlEntryRecord(
            id=topic_id, resource_type=2, resource_name=name, pattern_type=3, principal="User:a", host="*"
        )
        records.append(entry)
    return records


@pytest.mark.usefixtures("small_turns")
def test_the_image_of_a_snapshot_is_built_over_several_turns(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = MetadataFollower(
        world=harness.world, log=harness.controller.log, config=harness.config, cluster_id=CLUSTER_ID
    )
    watcher = Watcher()
    follower.publishers.add(watcher)
    delta = MetadataDelta(harness.image)
    for record in many_entries(90):
        delta.replay(record)
    image = delta.apply(offset=harness.image.offset, epoch=harness.image.epoch, timestamp_ms=0)
    done(write_image(harness.controller.log, image))
    work = WorkOfATurn(monkeypatch)
    follower.reload(is_followed=True, in_turns=True)
    turns: list[int] = []
    while not watcher.images:
        harness.virtual.scheduler.run_turn()
        turns.append(work.take())
    # Three topics with three entries each: by name, by id, and by the name in which they collide.
    assert max(turns) <= 9
    assert sum(turns) >= 90 * 5
    assert content(follower.image) == content(image)
    assert len(watcher.images) == 1


@pytest.mark.usefixtures("small_turns")
def test_slices_build_the_same_image() -> None:
    before = MetadataDelta(MetadataImage(cluster_id="c"))
    for record in many_entries(40):
        before.replay(record)
    first = before.apply(offset=1, epoch=1, timestamp_ms=0)
    change = MetadataDelta(first)
    for record in many_entries(60)[150:]:
        change.replay(record)
    for number in range(0, 30, 3):
        identity = Uuid(number.to_bytes(16, "big"))
        change.replay(r.RemoveTopicRecord(topic_id=identity))
        change.replay(r.RemoveAccessControlEntryRecord(id=identity))
    whole = change.apply(offset=2, epoch=1, timestamp_ms=0)
    slices = change.applying(offset=2, epoch=1, timestamp_ms=0)
    assert sum(1 for _ in slices) > 10
    sliced = finish(change.applying(offset=2, epoch=1, timestamp_ms=0))
    assert content(sliced) == content(whole)
    step = finish(step_between(first, sliced))
    assert step.topics.deleted == change.topics.deleted
    assert {key: topic_delta.changed for key, topic_delta in step.topics.changed.items()} == {
        key: topic_delta.changed for key, topic_delta in change.topics.changed.items()
    }
    assert step.configs_changed == {
        resource for resource in change.configs_changed if first.configs.by_resource.get(resource)
    } | {resource for resource in change.configs_changed if whole.configs.by_resource.get(resource)}


@pytest.mark.usefixtures("small_turns")
def test_the_step_between_images_is_found_over_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a snapshot has lost or kept everything: then nothing is compared."""
    delta = MetadataDelta(MetadataImage(cluster_id="c"))
    for record in many_entries(60):
        delta.replay(record)
    full, empty = delta.apply(offset=1, epoch=1, timestamp_ms=0), MetadataImage(cluster_id="c")
    looked = [0]
    get = PersistentMap.get

    def count(searched: Any, key: Any, default: Any = None) -> Any:
        looked[0] += 1
        return get(searched, key, default)

    monkeypatch.setattr(PersistentMap, "get", count)
    monkeypatch.setattr(PersistentMap, "__contains__", lambda searched, key: count(searched, key) is not None)
    for before, after in ((full, empty), (empty, full), (full, full)):
        work = step_between(before, after)
        looked[0] = most = 0
        for _ in work:
            most, looked[0] = max(most, looked[0]), 0
        assert most <= 6
