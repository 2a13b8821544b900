"""The topic of roles: the last record with a role's name as its key is the role."""

from __future__ import annotations

from ottla.cli.logic.role_plan import Role, read_role, written
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["TOPIC", "read_roles", "write_role"]

TOPIC = "__roles"
POLL_MS = 500


async def read_roles(admin: AdminClient, settings: ClientSettings) -> dict[str, Role]:
    """The roles of the cluster by name; none if the topic does not exist."""
    topic = (await admin.topics.all()).get(TOPIC)
    if topic is None:
        return {}
    partition = TopicPartition(TOPIC, 0)
    roles: dict[str, Role] = {}
    async with Consumer(settings) as consumer:
        await consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        position = (await consumer.beginning_offsets([partition]))[partition]
        consumer.seek(partition, position)
        while position < end:
            for record in await consumer.poll(POLL_MS):
                position = record.offset + 1
                name = (record.key or b"").decode()
                if record.value is None:
                    roles.pop(name, None)
                else:
                    roles[name] = read_role(name, record.value)
    return dict(sorted(roles.items()))


async def write_role(admin: AdminClient, settings: ClientSettings, name: str, role: Role | None) -> None:
    if TOPIC not in await admin.topics.all():
        topic = NewTopic(name=TOPIC, partitions=1, replication_factor=-1, configs={"cleanup.policy": "compact"})
        answer = (await admin.topics.create([topic]))[TOPIC]
        if isinstance(answer, KafkaError) and answer.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer
    async with Producer(settings) as producer:
        await producer.send_and_wait(TOPIC, None if role is None else written(role), name.encode(), partition=0)
