"""Decisions about topics: create, delete, add partitions.

Every topic of a request succeeds or fails independently, and the records of all successful topics form one batch. The
records of a topic are its TopicRecord, its configuration and its partitions, in the order that replay requires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.metadata.controller.decision import Decision, DecisionContext, default_directory, ensure_bounded, repeated
from ottla.metadata.controller.effective_config import effective_topic_config
from ottla.metadata.controller.placement import ReplicaPlacer, UsableBroker
from ottla.metadata.image import MetadataImage, ResourceType, TopicImage
from ottla.metadata.topic_names import CLUSTER_METADATA_TOPIC, check_topic_name
from ottla.metadata.topics_delta import collision_key
from ottla.metadata.versions import DIRECTORIES_LEVEL
from ottla.model.config import validate_topic_overrides
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.metadata_records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

__all__ = ["decide_create_partitions", "decide_create_topics", "decide_delete_topics", "decide_delete_topics_disabled"]

Assignments = dict[int, Sequence[int]]

# Apache Kafka's limit for one request.
PARTITIONS_PER_REQUEST_MAX = 10_000


class _TopicRequest:
    """Computed once for all topics of a request: the layout of brokers and the default configuration."""

    def __init__(self, context: DecisionContext) -> None:
        self.context = context
        brokers = context.image.brokers
        self.active = {broker_id for broker_id, broker in brokers.items() if broker.active}
        self.directories = {broker_id: default_directory(context.image, broker_id) for broker_id in brokers}
        self.has_directories = context.image.features.metadata_version >= DIRECTORIES_LEVEL
        self._placer: ReplicaPlacer | None = None
        self._default_configs: list[CreatableTopicConfigs] | None = None

    def place(self, *, partition_count: int, replication_factor: int) -> list[tuple[int, ...]]:
        if self._placer is None:
            brokers = [broker for broker in self.context.image.brokers.values() if broker.takes_new_replicas]
            usable = (UsableBroker(broker.broker_id, broker.rack, broker.fenced, broker.host) for broker in brokers)
            self._placer = ReplicaPlacer(usable, self.context.random)
        return self._placer.place(partition_count=partition_count, replication_factor=replication_factor)

    def configs(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """The configuration in the response. Topics without overrides share one list, which is never changed."""
        if overrides:
            return self._configs(overrides)
        if self._default_configs is None:
            self._default_configs = self._configs({})
        return self._default_configs

    def _configs(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(
                name=entry.name,
                value=None if entry.is_sensitive else entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in effective_topic_config(self.context.config, overrides)
        ]


def decide_create_topics(request: CreateTopicsRequest, context: DecisionContext) -> Decision[CreateTopicsResponse]:
    _check_partition_count(request, context)
    shared = _TopicRequest(context)
    records: list[Any] = []
    results: list[CreatableTopicResult] = []
    duplicates = repeated(topic.name for topic in request.topics)
    answered: set[str] = set()
    taken_keys: dict[str, str] = {}
    for topic in request.topics:
        if topic.name in answered:
            continue
        answered.add(topic.name)
        try:
            if topic.name in duplicates:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request names topic {topic.name!r} more than once")
            _check_new_name(topic.name, context.image, taken_keys)
            topic_records, result = _create_topic(topic, shared)
        except KafkaError as error:
            results.append(
                CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message, configs=[])
            )
            continue
        records += topic_records
        results.append(result)
        ensure_bounded(len(records))
    return Decision([] if request.validate_only else records, CreateTopicsResponse(topics=results))


def decide_delete_topics_disabled(
    request: DeleteTopicsRequest, context: DecisionContext
) -> Decision[DeleteTopicsResponse]:
    """With `delete.topic.enable=false`, every topic of the request gets the same error."""
    code = ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
    message = "topics cannot be deleted: delete.topic.enable is false"
    results = [DeletableTopicResult(name=name, error_code=code, error_message=message) for name in request.topic_names]
    results += [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
        for topic in request.topics
    ]
    return Decision([], DeleteTopicsResponse(responses=results))


def decide_delete_topics(request: DeleteTopicsRequest, context: DecisionContext) -> Decision[DeleteTopicsResponse]:
    if not context.config.delete_topic_enable:
        return decide_delete_topics_disabled(request, context)
    wanted: list[tuple[str | None, Uuid]] = [(name, Uuid.ZERO) for name in request.topic_names]
    wanted += [(topic.name, topic.topic_id) for topic in request.topics]
    duplicate_names = repeated(name for name, topic_id in wanted if name is not None and not topic_id)
    duplicate_ids = repeated(topic_id for name, topic_id in wanted if name is None and topic_id)
    by_name = {name for name, topic_id in wanted if name is not None and not topic_id}
    by_id = {topic_id for name, topic_id in wanted if name is None}
    records: list[Any] = []
    results: list[DeletableTopicResult] = []
    answered: set[tuple[str | None, Uuid]] = set()
    for name, topic_id in wanted:
        if (name, topic_id) in answered and (name is not None or topic_id):
            continue
        answered.add((name, topic_id))
        shown = name, topic_id
        try:
            if name in duplicate_names or (name is None and topic_id in duplicate_ids):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request names topic {name or topic_id} twice")
            topic = _find_topic(name, topic_id, context.image)
            if topic.topic_id in by_id and topic.name in by_name:
                # A topic that is given by name and by id is not deleted and gets one result.
                answered.update(((None, topic.topic_id), (topic.name, Uuid.ZERO)))
                shown = topic.name, topic.topic_id
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request names topic {name or topic_id} twice")
            context.take_mutations(len(topic.partitions))
        except KafkaError as error:
            results.append(
                DeletableTopicResult(
                    name=shown[0], topic_id=shown[1], error_code=error.code, error_message=error.message
                )
            )
            continue
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        ensure_bounded(len(records))
        results.append(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_message=None))
    return Decision(records, DeleteTopicsResponse(responses=results))


def decide_create_partitions(
    request: CreatePartitionsRequest, context: DecisionContext
) -> Decision[CreatePartitionsResponse]:
    shared = _TopicRequest(context)
    records: list[Any] = []
    results: list[CreatePartitionsTopicResult] = []
    duplicates = repeated(topic.name for topic in request.topics)
    answered: set[str] = set()
    for topic in request.topics:
        if topic.name in answered:
            continue
        answered.add(topic.name)
        try:
            if topic.name in duplicates:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request names topic {topic.name!r} more than once")
            added = _create_partitions(topic, shared)
        except KafkaError as error:
            results.append(
                CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            )
            continue
        records += added
        ensure_bounded(len(records))
        results.append(CreatePartitionsTopicResult(name=topic.name, error_message=None))
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _check_new_name(name: str, image: MetadataImage, taken_keys: dict[str, str]) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is the metadata log and cannot be created")
    check_topic_name(name)
    if name in image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    key = collision_key(name)
    if key is None:
        return
    colliding = image.topics.by_collision_key.get(key) or taken_keys.get(key)
    if colliding:
        other = colliding if isinstance(colliding, str) else colliding[0]
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} differs from the existing topic {other!r} only in '.' and '_', "
            "which metrics cannot distinguish",
        )
    taken_keys[key] = name


def _check_partition_count(request: CreateTopicsRequest, context: DecisionContext) -> None:
    """Refuses a request that is too large as a whole, before its records are built."""
    default = context.config.num_partitions
    wanted = sum(
        len(topic.assignments) or (default if topic.num_partitions == -1 else max(topic.num_partitions, 0))
        for topic in request.topics
    )
    if wanted > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the request would create {wanted} partitions at once; "
            f"at most {PARTITIONS_PER_REQUEST_MAX} are allowed, so please split it",
        )


def _create_topic(topic: CreatableTopic, shared: _TopicRequest) -> tuple[list[Any], CreatableTopicResult]:
    context = shared.context
    overrides = _creation_overrides(topic, context)
    if topic.assignments:
        assignments = _manual_assignments(topic, context)
    else:
        assignments = _automatic_assignments(topic, shared)
    context.take_mutations(len(assignments))
    topic_id = Uuid.random(context.random)
    records: list[Any] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in overrides.items()
    ]
    records += _partition_records(topic_id, assignments, shared)
    result = CreatableTopicResult(name=topic.name, topic_id=topic_id, error_message=None, configs=[])
    if context.may_describe_configs(topic.name):
        result.num_partitions = len(assignments)
        result.replication_factor = len(assignments[0])
        result.configs = shared.configs(overrides)
    else:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return records, result


def _creation_overrides(topic: CreatableTopic, context: DecisionContext) -> Mapping[str, str]:
    overrides: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{config.name} has no value; leave it out to use the default")
        overrides[config.name] = config.value
    if overrides:
        validate_topic_overrides(context.config, overrides)
    return overrides


def _manual_assignments(topic: CreatableTopic, context: DecisionContext) -> Assignments:
    if topic.replication_factor != -1 or topic.num_partitions != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "with a manual assignment both num_partitions and replication_factor must be -1, "
            "because the assignment determines them",
        )
    assignments: Assignments = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        if assignment.partition_index in assignments:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {assignment.partition_index} is assigned more than once",
            )
        check_manual_assignment(
            assignment.broker_ids, context.image, partition=assignment.partition_index, size=replication_factor
        )
        replication_factor = len(assignment.broker_ids)
        assignments[assignment.partition_index] = assignment.broker_ids
    missing = next((index for index in range(len(assignments)) if index not in assignments), None)
    if missing is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partitions must be numbered from 0 without a gap, and partition {missing} has no assignment",
        )
    return assignments


def check_manual_assignment(
    broker_ids: Sequence[int], image: MetadataImage, *, partition: int, size: int | None, needs_active: bool = True
) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT unless the replicas are registered and distinct, and one of them can lead.

    The last condition does not apply to a reassignment, because the partition already has a leader.
    """
    if not broker_ids:
        problem = "has no replica"
    elif len(set(broker_ids)) < len(broker_ids):
        problem = "names a broker more than once"
    elif size is not None and len(broker_ids) != size:
        problem = f"has {len(broker_ids)} replicas where other partitions of the topic have {size}"
    else:
        unknown = [broker_id for broker_id in broker_ids if broker_id not in image.brokers]
        if unknown:
            problem = f"names broker {unknown[0]}, which is not registered"
        elif needs_active and not any(image.brokers[broker_id].active for broker_id in broker_ids):
            problem = "names only brokers that are fenced or shutting down"
        else:
            return
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the assignment of partition {partition} {problem}")


def _automatic_assignments(topic: CreatableTopic, shared: _TopicRequest) -> Assignments:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor must be at least 1, or -1 for the default, not {topic.replication_factor}",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"the number of partitions must be at least 1, or -1 for the default, not {topic.num_partitions}",
        )
    config = shared.context.config
    count = config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    return dict(enumerate(shared.place(partition_count=count, replication_factor=factor)))


def _partition_records(topic_id: Uuid, assignments: Mapping[int, Sequence[int]], shared: _TopicRequest) -> list[Any]:
    """The records of new partitions: active replicas are in sync, and the first of them leads.

    Partitions with the same replicas share their lists, which never change after a decision.
    """
    records = []
    alike: dict[tuple[int, ...], tuple[list[int], list[int], list[Uuid]]] = {}
    no_replicas: list[int] = []
    for index in sorted(assignments):
        key = tuple(assignments[index])
        shared_lists = alike.get(key)
        if shared_lists is None:
            isr = [broker_id for broker_id in key if broker_id in shared.active]
            assert isr, "an assignment needs an active replica"
            directories = [shared.directories[broker_id] for broker_id in key] if shared.has_directories else []
            shared_lists = alike[key] = list(key), isr, directories
        replicas, isr, directories = shared_lists
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=isr,
                removing_replicas=no_replicas,
                adding_replicas=no_replicas,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=directories,
            )
        )
    return records


def _find_topic(name: str | None, topic_id: Uuid, image: MetadataImage) -> TopicImage:
    if name is None:
        if not topic_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic to delete needs a name or an id")
        topic = image.topics.by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic_id} does not exist")
        return topic
    if topic_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic to delete is given by name or by id, not by both")
    topic = image.topics.by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    return topic


def _create_partitions(topic: CreatePartitionsTopic, shared: _TopicRequest) -> list[Any]:
    context = shared.context
    image = context.image.topics.by_name.get(topic.name)
    if image is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name!r} does not exist")
    existing = len(image.partitions)
    if topic.count <= existing:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name!r} already has {existing} partition(s); {topic.count} would not be an increase",
        )
    additional = topic.count - existing
    ensure_bounded(additional)
    replication_factor = len(image.partitions[0].replicas)
    if topic.assignments is None:
        placed: Sequence[Sequence[int]] = shared.place(
            partition_count=additional, replication_factor=replication_factor
        )
    else:
        placed = [assignment.broker_ids for assignment in topic.assignments]
        if len(placed) != additional:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{additional} partition(s) are added, but {len(placed)} assignment(s) are given",
            )
        for offset, broker_ids in enumerate(placed):
            check_manual_assignment(broker_ids, context.image, partition=existing + offset, size=replication_factor)
    context.take_mutations(additional)
    return _partition_records(
        image.topic_id, {existing + offset: replicas for offset, replicas in enumerate(placed)}, shared
    )
