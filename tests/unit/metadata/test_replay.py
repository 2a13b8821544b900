"""Restart, snapshots and failures: the image after them is the image before them."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.metadata import snapshot_policy
from ottla.metadata.delta import CorruptMetadataError, MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_records import image_records, image_values
from ottla.metadata.loader import load_image
from ottla.metadata.snapshot_policy import write_image
from ottla.metadata.versions import encode_for
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.quorum import local_log
from ottla.quorum.errors import MetadataLogFailedError
from ottla.quorum.log import MetadataLogSettings
from ottla.quorum.snapshots import list_snapshots, read_snapshot
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.metadata_codec import decode_record
from tests.support.files import MemoryFiles
from tests.support.quorum import start_single_voter
from tests.support.virtual_world import VirtualWorld
from tests.unit.metadata.harness import DIRECTORY, ControllerHarness, done, registration

BROKERS = (1, 2, 3)

decisions = st.one_of(
    st.tuples(st.just("create"), st.sampled_from("abcd"), st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.sampled_from("abcd")),
    st.tuples(st.just("extend"), st.sampled_from("abcd"), st.integers(1, 5)),
    st.tuples(st.just("configure"), st.sampled_from("abcd"), st.sampled_from(["1000", "2000", None])),
    st.tuples(st.just("default"), st.sampled_from(["1", "2", None])),
    st.tuples(st.just("restart broker"), st.sampled_from(BROKERS), st.integers(2, 9)),
    st.tuples(st.just("shut down broker"), st.sampled_from(BROKERS)),
    st.tuples(st.just("producer ids"), st.sampled_from(BROKERS)),
    st.tuples(st.just("snapshot")),
)


def decide(harness: ControllerHarness, decision: tuple[Any, ...]) -> None:
    match decision:
        case ("create", name, partitions, factor):
            harness.create(name, partitions, factor)
        case ("delete", name):
            done(harness.controller.ask(DeleteTopicsRequest(topic_names=[name])))
        case ("extend", name, count):
            topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
            done(harness.controller.ask(CreatePartitionsRequest(topics=[topic])))
        case ("configure", name, value):
            alter(harness, 2, name, "retention.ms", value)
        case ("default", value):
            alter(harness, 4, "", "min.insync.replicas", value)
        case ("restart broker", broker_id, incarnation):
            harness.virtual.clock.ms += 60_000
            done(harness.controller.ask(registration(broker_id, incarnation=incarnation)))
            harness.beat(broker_id)
        case ("shut down broker", broker_id):
            harness.beat(broker_id, want_shut_down=True)
        case ("producer ids", broker_id):
            epoch = harness.image.brokers[broker_id].broker_epoch
            request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
            done(harness.controller.ask(request))


def alter(harness: ControllerHarness, kind: int, name: str, key: str, value: str | None) -> None:
    config = AlterableConfig(name=key, config_operation=0 if value else 1, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    done(harness.controller.ask(IncrementalAlterConfigsRequest(resources=[resource])))


def state_of(image: MetadataImage) -> MetadataImage:
    """An image without the parts that every start changes: its log position, and the controller."""
    cluster = image.cluster._replace(controllers={})
    return image._replace(offset=0, epoch=0, timestamp_ms=0, cluster=cluster)


@given(st.lists(decisions, max_size=30))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_restart_replays_to_the_same_image_with_and_without_snapshots(history: list[tuple[Any, ...]]) -> None:
    plain, with_snapshots = ControllerHarness(), ControllerHarness()
    for harness in (plain, with_snapshots):
        for broker_id in BROKERS:
            harness.add_broker(broker_id)
        for decision in history:
            if decision[0] != "snapshot":
                decide(harness, decision)
            elif harness is with_snapshots:
                write_image(harness.log, harness.image).result()
    before = state_of(plain.image)
    assert state_of(with_snapshots.image) == before
    for harness in (plain, with_snapshots):
        harness.reopen()
        assert state_of(harness.image) == before


@given(st.lists(decisions, max_size=20))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_records_of_an_image_make_the_image(history: list[tuple[Any, ...]]) -> None:
    harness = ControllerHarness()
    for broker_id in BROKERS:
        harness.add_broker(broker_id)
    for decision in history:
        decide(harness, decision)
    delta = MetadataDelta(MetadataImage(cluster_id=harness.image.cluster_id))
    level = harness.image.features.metadata_version
    for record in image_records(harness.image):
        delta.replay(decode_record(memoryview(encode_for(record, level))))
    assert state_of(delta.apply(offset=0, epoch=0, timestamp_ms=0)) == state_of(harness.image)


def test_every_section_survives_a_snapshot() -> None:
    delta = MetadataDelta(MetadataImage())
    identity = Uuid(b"0123456789abcdef")
    for record in (
        r.FeatureLevelRecord(name="metadata.version", feature_level=30),
        r.RegisterControllerRecord(
            controller_id=1,
            incarnation_id=identity,
            end_points=[r.ControllerEndpoint(name="CONTROLLER", host="h", port=9093, security_protocol=0)],
            features=[r.ControllerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
        ),
        r.ClientQuotaRecord(
            entity=[r.EntityData(entity_type="user", entity_name=None)], key="producer_byte_rate", value=1.5
        ),
        r.AccessControlEntryRecord(id=identity, resource_type=2, resource_name="t", principal="User:a", host="*"),
        r.UserScramCredentialRecord(
            name="u", mechanism=1, salt=b"salt", stored_key=b"sk", server_key=b"vk", iterations=4096
        ),
        r.DelegationTokenRecord(
            owner="o", requester="o", renewers=["a", "b"], token_id="t", max_timestamp=9, owner_groups=["g", "h"]
        ),
        r.ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=3000),
    ):
        delta.replay(record)
    image = delta.apply(offset=0, epoch=0, timestamp_ms=0)
    again = MetadataDelta(MetadataImage())
    for record in image_records(image):
        again.replay(decode_record(memoryview(encode_for(record, 30))))
    assert again.apply(offset=0, epoch=0, timestamp_ms=0) == image
    assert len(list(image_records(image))) == 7


def test_removing_what_was_there_leaves_nothing() -> None:
    delta = MetadataDelta(MetadataImage())
    identity = Uuid(b"0123456789abcdef")
    entity = [r.EntityData(entity_type="user", entity_name="u")]
    for record in (
        r.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.5),
        r.ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True),
        r.AccessControlEntryRecord(id=identity),
        r.RemoveAccessControlEntryRecord(id=identity),
        r.UserScramCredentialRecord(name="u", mechanism=1),
        r.RemoveUserScramCredentialRecord(name="u", mechanism=1),
        r.DelegationTokenRecord(token_id="t"),
        r.RemoveDelegationTokenRecord(token_id="t"),
        r.NoOpRecord(),
    ):
        delta.replay(record)
    assert delta.apply(offset=-1, epoch=0, timestamp_ms=0) == MetadataImage()


@pytest.mark.parametrize(
    "record",
    [
        r.PartitionRecord(topic_id=Uuid(b"0123456789abcdef"), partition_id=0),
        r.PartitionChangeRecord(topic_id=Uuid(b"0123456789abcdef"), partition_id=0),
        r.RemoveTopicRecord(topic_id=Uuid(b"0123456789abcdef")),
        r.FenceBrokerRecord(id=4, epoch=1),
        r.UnregisterBrokerRecord(broker_id=4, broker_epoch=1),
        r.ClearElrRecord(topic_name="t"),
    ],
)
def test_a_record_about_nothing_is_an_error(record: Any) -> None:
    with pytest.raises(CorruptMetadataError, match=r"which (does not exist|is not registered)"):
        MetadataDelta(MetadataImage()).replay(record)


def test_a_record_of_an_unknown_type_stops_the_start() -> None:
    harness = ControllerHarness()
    harness.log.append([bytes((1, 99, 0))])
    with pytest.raises(CorruptMetadataError, match="type 99"):
        harness.reopen()


def test_a_newer_record_version_stops_the_start() -> None:
    harness = ControllerHarness()
    harness.log.append([bytes((1, 2, 7))])
    with pytest.raises(CorruptMetadataError, match="unknown version 7 of TopicRecord"):
        harness.reopen()


def test_a_newer_metadata_version_stops_the_start() -> None:
    harness = ControllerHarness()
    harness.log.append([encode_for(r.FeatureLevelRecord(name="metadata.version", feature_level=32), 30)])
    with pytest.raises(CorruptMetadataError, match="level 32"):
        harness.reopen()


def test_a_transaction_without_end_never_was() -> None:
    harness = ControllerHarness()
    harness.add_broker(1)
    begin = [r.BeginTransactionRecord(name="half"), r.TopicRecord(name="half", topic_id=Uuid(b"0123456789abcdef"))]
    harness.log.append([encode_for(record, 30) for record in begin])
    harness.reopen()
    assert "half" not in harness.image.topics.by_name
    # It was aborted in the log, so what is decided afterwards is not inside of it.
    assert harness.create("whole").error_code == ErrorCode.NONE
    harness.reopen()
    assert list(harness.image.topics.by_name) == ["whole"]


def test_a_cluster_whose_first_records_were_left_in_a_transaction_gets_them_again() -> None:
    """Apache Kafka writes the first records of a cluster in a transaction. Its first controller may not finish it."""
    virtual = VirtualWorld(immediate_workers=True, files=MemoryFiles())
    virtual.files.make_directories(DIRECTORY)
    quorum = start_single_voter(world=virtual.world, metadata_log_dir=DIRECTORY, node_id=1)
    begin = r.BeginTransactionRecord(name="Bootstrap records")
    level = r.FeatureLevelRecord(name="metadata.version", feature_level=30)
    quorum.log.append([encode_for(record, 30) for record in (begin, level)])
    quorum.log.close()
    harness = ControllerHarness(virtual=virtual)
    harness.add_broker(1)
    assert harness.create("whole").error_code == ErrorCode.NONE
    harness.reopen()
    assert list(harness.image.topics.by_name) == ["whole"]
    assert harness.image.features.finalized["metadata.version"] == 30


def test_a_new_cluster_has_the_features_of_the_release_that_are_served() -> None:
    harness = ControllerHarness()
    assert harness.image.features.finalized == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }
    assert harness.image.configs.of_all_brokers() == {"min.insync.replicas": "1"}


def test_nothing_is_answered_or_published_before_the_commit() -> None:
    virtual = VirtualWorld(files=MemoryFiles())
    harness = ControllerHarness(virtual=virtual)
    virtual.workers.run_all()
    assert not (registered := harness.controller.ask(registration(1))).done
    assert 1 not in harness.image.brokers
    virtual.workers.run_all()
    assert registered.done
    assert 1 in harness.image.brokers


def uncommitted_creations(times: int) -> tuple[ControllerHarness, list[Deferred[CreateTopicsResponse]]]:
    """A controller that was asked so many times to create the same topic, and whose disk has not answered yet."""
    harness = ControllerHarness()
    harness.add_broker(1)
    harness.virtual.workers.immediate = False
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    return harness, [harness.controller.ask(request) for _ in range(times)]


def test_a_decision_sees_what_is_not_committed_and_waits_for_it() -> None:
    harness, (first, second) = uncommitted_creations(2)
    assert not first.done
    # The second response reports that the topic exists, so it waits until the creation is committed.
    assert not second.done
    harness.virtual.workers.run_all()
    assert first.result().topics[0].error_code == ErrorCode.NONE
    assert second.result().topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_thousands_may_wait_for_one_commit() -> None:
    harness, answers = uncommitted_creations(3000)
    harness.virtual.workers.run_all()
    codes = [answer.result().topics[0].error_code for answer in answers]
    assert codes == [ErrorCode.NONE, *[ErrorCode.TOPIC_ALREADY_EXISTS] * 2999]


def test_all_who_wait_hear_that_another_leads() -> None:
    harness, answers = uncommitted_creations(3000)
    harness.controller.deactivate()
    errors = [answer.error for answer in answers]
    assert {error.code for error in errors if isinstance(error, KafkaError)} == {ErrorCode.NOT_CONTROLLER}
    assert None not in errors


def test_a_refused_append_rolls_back() -> None:
    harness = ControllerHarness()
    harness.add_broker(1)
    before = harness.image
    harness.memory.fail_next("append", OSError(errno.ENOSPC, "no space left on device"))
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    refused = harness.controller.ask(request)
    assert isinstance(refused.error, KafkaError)
    assert refused.error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert harness.image is before
    assert harness.controller.uncommitted_image is before
    assert harness.create("t").error_code == ErrorCode.NONE
    harness.reopen()
    assert list(harness.image.topics.by_name) == ["t"]


def test_a_failed_fsync_answers_no_request_and_stops_the_controller() -> None:
    virtual = VirtualWorld(immediate_workers=True, files=MemoryFiles())
    harness = ControllerHarness(virtual=virtual)
    harness.add_broker(1)
    before = harness.image
    virtual.workers.immediate = False
    requests = [
        CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
        for name in ("a", "b", "a")
    ]
    answers = [harness.controller.ask(request) for request in requests]
    harness.memory.fail_next("sync", OSError(errno.EIO, "input/output error"))
    virtual.workers.run_all()
    assert [type(answer.error) for answer in answers] == [MetadataLogFailedError] * 3
    assert harness.image is before
    assert harness.controller.uncommitted_image is before
    assert isinstance(harness.controller.ask(requests[0]).error, MetadataLogFailedError)


def test_snapshots_are_written_by_bytes() -> None:
    harness = ControllerHarness(
        properties={"metadata.log.max.record.bytes.between.snapshots": "2000"},
        settings=MetadataLogSettings(segment_bytes=1000, retention_bytes=5000),
    )
    harness.add_broker(1)
    for number in range(50):
        harness.create(f"topic-{number}", 2)
    # Two thousand bytes are some twelve topics of two partitions.
    assert 2 < harness.controller.snapshots.written < 8
    snapshots = list_snapshots(harness.memory, f"{DIRECTORY}/__cluster_metadata-0")
    assert len(snapshots) < harness.controller.snapshots.written
    assert harness.log.start_offset > 0
    before = state_of(harness.image)
    harness.reopen()
    assert state_of(harness.image) == before


def test_snapshots_follow_the_size_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start replays no more than about twice the image, and snapshots become rare as the image grows."""
    monkeypatch.setattr(snapshot_policy, "RECORD_BYTES_MIN", 2_000)
    harness = ControllerHarness()
    harness.add_broker(1)
    written = []
    for number in range(60):
        harness.create(f"topic-{number}", 10)
        written.append(harness.controller.snapshots.written)
    assert written[9] >= 2
    # The intervals grow with the image.
    assert 3 <= written[-1] <= 6
    assert written[-1] - written[29] <= 2


def test_snapshots_follow_the_size_of_an_image_with_few_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_policy, "RECORD_BYTES_MIN", 2_000)
    harness = ControllerHarness()
    harness.add_broker(1)
    written = []
    for number in range(60):
        harness.create(f"{'long' * 50}-{number}")
        written.append(harness.controller.snapshots.written)
    assert written[9] >= 1
    assert written[-1] - written[29] <= 2


def test_the_values_of_an_image_are_its_encoded_records() -> None:
    """Partitions that equal their neighbour are not encoded by themselves."""
    harness = ControllerHarness()
    for broker_id in (1, 2, 3):
        harness.add_broker(broker_id)
    for name, count, replicas in (("one", 1, 1), ("alike", 40, 3), ("mixed", 700, 2)):
        harness.create(name, count, replicas)
    harness.beat(2, want_shut_down=True)
    image = harness.image
    level = image.features.metadata_version
    assert list(image_values(image)) == [encode_for(record, level) for record in image_records(image)]


def test_a_start_reads_the_snapshot_once(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = ControllerHarness()
    harness.add_broker(1)
    harness.create("t", 3)
    written = done(write_image(harness.log, harness.image))
    before = state_of(harness.image)
    read: list[str] = []
    monkeypatch.setattr(local_log, "read_snapshot", lambda files, path: read.append(path) or read_snapshot(files, path))
    harness.reopen()
    assert read == [harness.log.snapshot_path(written)]
    assert state_of(harness.image) == before
    # A later reader reads the file: its content is not kept in memory.
    assert harness.log.latest_snapshot() is not None
    assert len(read) == 2


def test_what_a_snapshot_holds_is_not_replayed_from_the_log() -> None:
    harness = ControllerHarness()
    harness.add_broker(1)
    for number in range(20):
        harness.create(f"topic-{number}")
        done(harness.controller.ask(DeleteTopicsRequest(topic_names=[f"topic-{number}"])))
    written = write_image(harness.log, harness.image).result()
    harness.create("later")
    loaded = load_image(harness.log, cluster_id=harness.image.cluster_id)
    assert loaded.snapshot_end_offset == written.end_offset
    assert loaded.records_replayed < 20
    assert list(loaded.image.topics.by_name) == ["later"]


def test_snapshots_are_written_by_time() -> None:
    harness = ControllerHarness(properties={"metadata.log.max.snapshot.interval.ms": "60000"})
    harness.add_broker(1)
    assert harness.controller.snapshots.written == 0
    harness.virtual.clock.ms += 60_000
    harness.create("t")
    assert harness.controller.snapshots.written == 1
