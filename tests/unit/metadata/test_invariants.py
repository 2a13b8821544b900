"""The rules of images bite: each of these images breaks one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.metadata.image import (
    BrokerImage,
    ClusterImage,
    FeaturesImage,
    MetadataImage,
    PartitionImage,
    ProducerIdsImage,
    TopicImage,
    TopicsImage,
)
from ottla.metadata.invariants import check_image, check_step
from ottla.metadata.persistent import PersistentMap
from ottla.model.ids import Uuid
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.unit.metadata.harness import ControllerHarness

TOPIC_ID = Uuid(bytes(15) + b"t")
PARTITION = PartitionImage(replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=4, partition_epoch=6)


def broker(broker_id: int, **fields: Any) -> BrokerImage:
    defaults: dict[str, Any] = {
        "broker_id": broker_id,
        "broker_epoch": broker_id,
        "incarnation_id": Uuid(bytes(15) + bytes((broker_id,))),
        "endpoints": {},
        "features": {},
        "rack": None,
        "fenced": False,
        "directories": (Uuid(bytes(14) + bytes((1, broker_id))),),
    }
    return BrokerImage(**{**defaults, **fields})


BROKERS = (broker(1), broker(2), broker(3, fenced=True))


def map_of(key: Any, value: Any) -> PersistentMap[Any, Any]:
    builder = PersistentMap().builder()  # type: ignore[var-annotated]
    builder[key] = value
    return builder.build()


def image(
    partition: PartitionImage = PARTITION, *, brokers: tuple[BrokerImage, ...] = BROKERS, **fields: Any
) -> MetadataImage:
    topic = TopicImage("t", TOPIC_ID, {0: partition})
    by_name: PersistentMap[str, TopicImage] = map_of("t", topic)
    by_id: PersistentMap[Uuid, TopicImage] = map_of(TOPIC_ID, topic)
    defaults: dict[str, Any] = {
        "cluster_id": "c",
        "offset": 20,
        "epoch": 2,
        "topics": TopicsImage(by_name=by_name, by_id=by_id),
        "cluster": ClusterImage(brokers={broker_image.broker_id: broker_image for broker_image in brokers}),
    }
    return MetadataImage(**{**defaults, **fields})


def changed(**fields: Any) -> PartitionImage:
    return PARTITION._replace(**fields)


def test_a_sound_image_passes() -> None:
    check_image(image())
    check_image(image(changed(isr=(), leader=-1, elr=(1,))))


@pytest.mark.parametrize(
    ("partition", "sentence"),
    [
        (changed(replicas=(), isr=(), leader=-1), "has no replicas"),
        (changed(replicas=(1, 2, 1)), "repeat"),
        (changed(isr=(1, 1)), "repeat"),
        (changed(isr=(1, 4)), "not all replicas"),
        (changed(elr=(4,)), "not all replicas"),
        (changed(elr=(2,)), "in sync and eligible"),
        (changed(adding_replicas=(4,)), "which are not replicas"),
        (changed(removing_replicas=(4,)), "which are not replicas"),
        (changed(directories=(Uuid.ZERO,)), "directories do not match"),
        (changed(leader_epoch=7), "over partition epoch"),
        (changed(leader=3), "is not in sync"),
        (changed(leader=3, isr=(3,)), "is fenced"),
        (changed(replicas=(4,), isr=(4,), leader=4), "is not registered"),
        (changed(leader_recovery_state=1), "while the leader recovers"),
    ],
)
def test_a_broken_partition_is_refused(partition: PartitionImage, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_image(image(partition))


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (lambda: image(brokers=(broker(1), broker(2, broker_epoch=21))), "has an epoch after offset 20"),
        (lambda: image(brokers=(broker(1), broker(2, directories=BROKERS[0].directories))), "belongs to brokers"),
        (lambda: image(features=FeaturesImage({"group.version": 0})), "at level 0"),
        (lambda: image(topics=image().topics._replace(by_id=PersistentMap())), "one name and one id"),
    ],
)
def test_a_broken_image_is_refused(broken: Callable[[], MetadataImage], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_image(broken())


def test_sound_steps_pass() -> None:
    check_step(image(), image())
    check_step(image(), image(changed(leader=2, leader_epoch=5, partition_epoch=7), offset=21))


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        (lambda: image(offset=19), "follows offset 20"),
        (lambda: image(epoch=1), "follows epoch 2"),
        (lambda: image(cluster_id="d"), "cluster id changed"),
        (lambda: image(changed(leader_epoch=3, partition_epoch=7)), "is older than before"),
        (lambda: image(changed(partition_epoch=5)), "went back"),
        (lambda: image(changed(isr=(1,))), "changed in partition epoch"),
        (lambda: image(changed(leader=2, partition_epoch=7)), "the leader changed in epoch"),
        (lambda: image(brokers=(broker(1, broker_epoch=0), *BROKERS[1:])), "is older than before"),
        (lambda: image(brokers=(broker(1, incarnation_id=Uuid.ZERO), *BROKERS[1:])), "has the same epoch"),
        (lambda: image(producer_ids=ProducerIdsImage(next_producer_id=-1)), "are used again"),
    ],
)
def test_a_broken_step_is_refused(after: Callable[[], MetadataImage], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_step(image(), after())


def test_a_controller_checks_its_uncommitted_images_too() -> None:
    harness = ControllerHarness()
    harness.add_broker(1)
    harness.virtual.workers.immediate = False
    harness.controller.ask(
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    )
    harness.controller.invariants()
    harness.controller._replayer.image = harness.image
    with pytest.raises(AssertionError, match="sees the newest image"):
        harness.controller.invariants()
