"""Appends the batches of a produce request, in every version and shape that is served."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import CloseConnection, RequestContext
from ottla.model.deferred import Deferred, gather
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.header import ATTRIBUTES_LOW_BYTE, PRODUCER_ID_AND_EPOCH, TRANSACTIONAL_BIT
from ottla.replica.appends import append
from ottla.replica.defects import error_of
from ottla.replica.mirroring import append_mirrored, check_mirror, is_mirror
from ottla.replica.partition import ACKS_ALL, Partition
from ottla.replica.producing import ProduceAnswer, WaitingProduce, fill_appended, fill_error
from ottla.replica.refusals import leader_hint
from ottla.replica.transactional import Transaction
from ottla.replica.validations import VALIDATION_MS_MAX
from ottla.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.replica.manager import HostedTopic, ReplicaManager
    from ottla.storage.log import AppendResult
    from ottla.wire.message import Records

__all__ = [
    "INTERNAL_TOPICS",
    "LEADER_HINT_VERSION",
    "TOPIC_ID_VERSION",
    "add_leader_hints",
    "error_response",
    "handle",
]

LEADER_HINT_VERSION = 10
_ABORTABLE_VERSION = 11
_ADDING_VERSION = 12
TOPIC_ID_VERSION = 13
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
# The client id that Kafka's own administration tools use to repair internal topics.
_ADMIN_CLIENT_ID = "__admin_client"


def handle(
    request: ProduceRequest,
    context: RequestContext,
    broker: Broker,
    outcomes: Sequence[tuple[Partition, AppendResult | Exception]] = (),
) -> ProduceAnswer | Deferred[ProduceAnswer] | Deferred[None] | None:
    """`outcomes` are the outcomes of the first batches if the shortcut has already written them."""
    acks = request.acks
    if not -1 <= acks <= 1:
        return error_response(request, context.api_version, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS))
    call = _ProduceCall(request, context, broker)
    call.outcomes.extend(outcomes)
    if request.transactional_id is not None and _is_transactional(request):
        if not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            error = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return error_response(request, context.api_version, error)
        if _has_several_producers(request):
            error = KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "The records of a request belong to one producer's transaction."
            )
            return error_response(request, context.api_version, error)
        call.transaction = Transaction(
            request.transactional_id,
            adds_partitions=context.api_version >= _ADDING_VERSION,
            knows_abortable=context.api_version >= _ABORTABLE_VERSION,
        )
    for topic in request.topic_data:
        call.append_topic(topic)
    if acks == 0:
        if call.errors:
            raise CloseConnection(f"a produce request with acks=0 failed: {call.errors[0]}")
        return call.nothing_to_answer()
    if context.api_version >= LEADER_HINT_VERSION and call.errors:
        add_leader_hints(call.response, context, broker.replicas)
    waiting = call.waiting
    return call.response if waiting is None else waiting.start(request.timeout_ms)


def error_response(request: ProduceRequest, version: int, error: KafkaError) -> ProduceResponse:  # noqa: ARG001
    """Every partition of the request answered with the same error."""
    if request.acks == 0:
        raise CloseConnection(f"a produce request with acks=0 failed: {error}")
    responses = []
    for topic in request.topic_data:
        answers = [PartitionProduceResponse(index=data.index) for data in topic.partition_data]
        for answer in answers:
            fill_error(answer, error)
        responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    return ProduceResponse(responses=responses)


def add_leader_hints(response: ProduceResponse, context: RequestContext, replicas: ReplicaManager) -> None:
    """KIP-951: names the leader of partitions that this broker does not lead, which saves a metadata request."""
    uses_topic_ids = context.api_version >= TOPIC_ID_VERSION
    endpoint_ids = {endpoint.node_id for endpoint in response.node_endpoints}
    for topic in response.responses:
        name = (replicas.topic_name(topic.topic_id) or "") if uses_topic_ids else topic.name
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            leader_id, epoch, endpoint = leader_hint(replicas.image, name, answer.index, context.listener_name)
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
            if endpoint is not None and leader_id not in endpoint_ids:
                endpoint_ids.add(leader_id)
                response.node_endpoints.append(
                    NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack)
                )


class _ProduceCall:
    """One request while it is being handled."""

    __slots__ = (
        "acks",
        "broker",
        "context",
        "errors",
        "is_mirror",
        "outcomes",
        "replicas",
        "response",
        "timeout_ms",
        "transaction",
        "under_way",
        "uses_topic_ids",
        "waiting",
    )

    def __init__(self, request: ProduceRequest, context: RequestContext, broker: Broker) -> None:
        self.acks = request.acks
        # The time for opening a batch. With acks=0 no client waits for an answer that could time out.
        self.timeout_ms = request.timeout_ms if request.acks else VALIDATION_MS_MAX
        # Set when records of a transaction are among those of the request.
        self.transaction: Transaction | None = None
        self.context = context
        self.broker = broker
        self.replicas = broker.replicas
        # Also true if the topic is no longer mirrored: a mirror's batches must never get offsets of this cluster.
        self.is_mirror = is_mirror(context.client_id)
        self.uses_topic_ids = context.api_version >= TOPIC_ID_VERSION
        self.response = ProduceResponse()
        self.waiting: WaitingProduce | None = None
        # Partitions and outcomes of the next batches, where the shortcut has appended them.
        self.outcomes: deque[tuple[Partition, AppendResult | Exception]] = deque()
        self.errors: list[KafkaError] = []
        # Appends on a worker or on their way to the disk, for acks=0, where no response waits for them.
        self.under_way: list[Deferred[Any]] = []

    def append_topic(self, topic: TopicProduceData) -> None:
        replicas, acks, transaction = self.replicas, self.acks, self.transaction
        answers: list[PartitionProduceResponse] = []
        self.response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
        hosted = replicas.by_id.get(topic.topic_id.bytes) if self.uses_topic_ids else replicas.by_name.get(topic.name)
        topic_error = self._topic_error(topic, hosted)
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index)
            answers.append(answer)
            partition: Partition | None = None
            outcome: AppendResult | Deferred[AppendResult] | Exception
            try:
                if self.outcomes:
                    # Not looked up again: a disk that failed under a batch takes all its partitions offline.
                    partition, outcome = self.outcomes.popleft()
                    if isinstance(outcome, Exception):
                        raise outcome
                elif topic_error is not None:
                    raise topic_error
                else:
                    target = None if hosted is None else hosted.partitions.get(data.index)
                    if target is None:
                        target = self._find(topic, data.index)
                    mirror_name = "" if target.produce_settings is None else target.produce_settings.mirror_name
                    if mirror_name or self.is_mirror:
                        partition = target
                        outcome = self._append_mirrored(partition, data.records, mirror_name)
                    elif transaction is None:
                        # `partition` is still None if this raises: such records never reach a log, so the answer has
                        # no start offset.
                        records = _batch(data.records)
                        partition = target
                        outcome = self._append(partition, records)
                    else:
                        partition = target
                        outcome = self._append_in_transaction(partition, data.records, transaction)
            except Exception as raised:  # noqa: BLE001 - a defect is the error of its partition alone
                error = error_of(raised, "an append", partition or TopicPartition(topic.name, data.index))
                fill_error(answer, error, partition)
                error.forget_traceback()
                self.errors.append(error)
                continue
            if isinstance(outcome, Deferred):
                self._waiting().wait_for_append(answer, partition, outcome)
                self.under_way.append(outcome)
                continue
            fill_appended(answer, outcome)
            if outcome.flushed is not None or (acks == ACKS_ALL and partition.high_watermark <= outcome.last_offset):
                self._waiting().wait_for_safety(answer, partition, outcome)
                if outcome.flushed is not None:
                    self.under_way.append(outcome.flushed)

    def nothing_to_answer(self) -> Deferred[None] | None:
        """For acks=0: keeps the request's place in its connection until all appends are done.

        An append that fails later closes the connection, too, and the bound on unanswered requests holds for it.
        """
        return gather(self.under_way).then(_no_answer) if self.under_way else None

    def _topic_error(self, topic: TopicProduceData, hosted: HostedTopic | None) -> KafkaError | None:
        name = topic.name if hosted is None else hosted.name
        if self.uses_topic_ids and hosted is None:
            known_name = self.replicas.topic_name(topic.topic_id)
            if known_name is None:
                return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            name = known_name
        if not self.context.allows(Operation.WRITE, ResourceType.TOPIC, name):
            return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if hosted is not None and name in INTERNAL_TOPICS and self.context.client_id != _ADMIN_CLIENT_ID:
            return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients may not write to the internal topic {name}.")
        return None

    def _append(self, partition: Partition, records: memoryview) -> AppendResult | Deferred[AppendResult]:
        return append(
            partition,
            records,
            required_acks=self.acks,
            now_ms=self.context.received_ms,
            api_version=self.context.api_version,
            validations=self.replicas.validations,
            timeout_ms=self.timeout_ms,
            client=self.context.connection,
        )

    def _append_mirrored(self, partition: Partition, records: Records, mirror_name: str) -> AppendResult:
        context = self.context
        check_mirror(mirror_name, context.client_id)
        # The batches keep the offsets and producers of their source, like batches fetched from a leader.
        if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if not isinstance(records, memoryview) or not records:
            raise KafkaError(ErrorCode.INVALID_RECORD, "A produce request needs a record batch for each partition.")
        return append_mirrored(partition, records, required_acks=self.acks, now_ms=context.received_ms)

    def _append_in_transaction(
        self, partition: Partition, records: Records, transaction: Transaction
    ) -> AppendResult | Deferred[AppendResult]:
        context = self.context
        if not _is_of_transaction(records):
            return self._append(partition, _batch(records))
        assert isinstance(records, memoryview)
        return self.broker.transactional_appends.append(
            partition,
            records,
            transaction=transaction,
            required_acks=self.acks,
            now_ms=context.received_ms,
            api_version=context.api_version,
            timeout_ms=self.timeout_ms,
            client=context.connection,
        )

    def _find(self, topic: TopicProduceData, index: int) -> Partition:
        if self.uses_topic_ids:
            return self.replicas.find_by_id(topic.topic_id, index)
        return self.replicas.find(topic.name, index)

    def _waiting(self) -> WaitingProduce:
        if self.waiting is None:
            on_lead_lost = None
            if self.context.api_version >= LEADER_HINT_VERSION:
                on_lead_lost = partial(add_leader_hints, self.response, self.context, self.replicas)
            self.waiting = WaitingProduce(
                self.replicas.parking, self.response, required_acks=self.acks, on_lead_lost=on_lead_lost
            )
        return self.waiting


def _no_answer(_: list[Any]) -> None:
    return None


def _is_transactional(request: ProduceRequest) -> bool:
    return any(_is_of_transaction(data.records) for topic in request.topic_data for data in topic.partition_data)


def _has_several_producers(request: ProduceRequest) -> bool:
    batches = [data.records for topic in request.topic_data for data in topic.partition_data]
    return (
        len(
            {
                bytes(batch[PRODUCER_ID_AND_EPOCH])
                for batch in batches
                if isinstance(batch, memoryview) and _is_of_transaction(batch)
            }
        )
        > 1
    )


def _is_of_transaction(records: Records) -> bool:
    return (
        isinstance(records, memoryview)
        and len(records) > ATTRIBUTES_LOW_BYTE
        and bool(records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT)
    )


def _batch(records: Records) -> memoryview:
    if not isinstance(records, memoryview) or not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A produce request needs a record batch for each partition.")
    if len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "The records are transactional, the request is not."
        )
    return records
