"""Turns exact copies into ordinary topics, and back.

A copy is released by removing `ottla.mirror.name`. Brokers learn of the change one after the other, so a probe with the
client id of the mirror asks each leader until the leader refuses it. Then no record of the mirror can be appended any
more. In the same way a topic that becomes a copy is closed to clients.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ottla.client.admin.configs import ConfigChange, ConfigOperation, ConfigResource, Configs, ResourceType
from ottla.client.admin.topics import Topics
from ottla.client.admin.transactions import Transactions
from ottla.client.cluster import Cluster
from ottla.client.errors import error_of
from ottla.client.leaders import ask_leaders
from ottla.mirror.copying.batches import MIRRORED_PRODUCER_BIT, empty_batch
from ottla.mirror.settings import FlowSettings, MirrorError
from ottla.mirror.topics import MIRROR_NAME
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.model.mirrors import MIRROR_CLIENT_ID_PREFIX
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

__all__ = ["end_open_transactions", "open_transactions", "release", "set_mirror_name", "wait_until_closed"]

_PROBE_SECONDS = 60.0
_PROBE_PAUSE_SECONDS = 0.1
_CHECKSUM_POSITION = 17
_TIMEOUT_MS = 30_000
# See `copying.exact`.
_PRODUCE_VERSION_MAX = 8


async def set_mirror_name(cluster: Cluster, topics: Iterable[str], name: str | None) -> dict[str, KafkaError | None]:
    """Makes topics copies that the mirror of this name writes, or ordinary ones (None)."""
    change = (
        ConfigChange(MIRROR_NAME, None, ConfigOperation.DELETE) if name is None else ConfigChange(MIRROR_NAME, name)
    )
    resources: dict[ConfigResource, Sequence[ConfigChange]] = {
        ConfigResource(ResourceType.TOPIC, topic): [change] for topic in topics
    }
    if not resources:
        return {}
    return {resource.name: error for resource, error in (await Configs(cluster).alter(resources)).items()}


async def release(flow: FlowSettings, partitions: Iterable[TopicPartition]) -> None:
    """Makes copies of the flow ordinary topics. When it returns, the mirror cannot write to them any more."""
    places = set(partitions)
    cluster = Cluster(replace(flow.target_client, client_id=f"{MIRROR_CLIENT_ID_PREFIX}{flow.name}"))
    try:
        for topic, error in (await set_mirror_name(cluster, {place.topic for place in places}, None)).items():
            if error is not None:
                raise KafkaError(error.code, f"{topic} cannot be released: {error.message}")
        await _until_refused(cluster, places, f"records of the mirror {flow.name}")
    finally:
        await cluster.close()


async def wait_until_closed(cluster: Cluster, topics: Iterable[str]) -> None:
    """Waits until all leaders know that topics are copies. When it returns, clients cannot write to them any more.

    `cluster` has the client id of a client.
    """
    present = await Topics(cluster).all()
    places = {TopicPartition(name, number) for name in topics if name in present for number in present[name].partitions}
    await _until_refused(cluster, places, "records of clients")


async def _until_refused(cluster: Cluster, partitions: set[TopicPartition], records: str) -> None:
    waiting = set(partitions)
    deadline = asyncio.get_running_loop().time() + _PROBE_SECONDS
    while waiting:
        answers = await _probe(cluster, waiting)
        waiting -= {place for place, error in answers.items() if error.code is ErrorCode.POLICY_VIOLATION}
        if waiting:
            if asyncio.get_running_loop().time() > deadline:
                raise MirrorError(f"{min(waiting)} still accepts {records}; try again.")
            await asyncio.sleep(_PROBE_PAUSE_SECONDS)


async def _probe(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KafkaError]:
    """Sends a batch that cannot be written, because its checksum is wrong, and returns the reasons of the refusals."""
    batch = empty_batch(0, 1)
    batch[_CHECKSUM_POSITION] ^= 0xFF

    async def ask(node_id: int, places: list[TopicPartition]) -> dict[TopicPartition, KafkaError]:
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for place in places:
            topics[place.topic].append(PartitionProduceData(index=place.partition, records=memoryview(batch)))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )
        connection = await cluster.node_connection(node_id, "produce")
        response: ProduceResponse = await connection.ask(
            request, timeout_ms=_TIMEOUT_MS, version_max=_PRODUCE_VERSION_MAX
        )
        refused = KafkaError(ErrorCode.NONE)
        return {
            TopicPartition(topic.name, answer.index): error_of(answer.error_code, answer.error_message) or refused
            for topic in response.responses
            for answer in topic.partition_responses
        }

    return await ask_leaders(cluster, partitions, ask)


async def open_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, mirrored: bool
) -> dict[TopicPartition, dict[int, int]]:
    """First offsets of open transactions by producer id: those that a mirror has copied, or all others."""
    first_offsets: dict[TopicPartition, dict[int, int]] = {}
    for place, states in (await Transactions(cluster).producers(partitions)).items():
        if isinstance(states, KafkaError):
            raise KafkaError(states.code, f"{place}: {states.message}")
        still_open = {
            state.producer_id: state.transaction_start_offset
            for state in states
            if state.transaction_start_offset >= 0 and bool(state.producer_id & MIRRORED_PRODUCER_BIT) is mirrored
        }
        if still_open:
            first_offsets[place] = still_open
    return first_offsets


async def end_open_transactions(cluster: Cluster, cut_off: Mapping[TopicPartition, Mapping[int, int]]) -> None:
    """Aborts transactions of the source that were open in copies: their own coordinator is at the source."""
    transactions = Transactions(cluster)
    for place, states in (await transactions.producers(cut_off)).items():
        if isinstance(states, KafkaError):
            raise KafkaError(states.code, f"{place}: {states.message}")
        for state in states:
            if state.transaction_start_offset >= 0 and state.producer_id in cut_off[place]:
                await transactions.abort(
                    place,
                    producer_id=state.producer_id,
                    producer_epoch=state.producer_epoch,
                    coordinator_epoch=state.coordinator_epoch,
                )
