"""A flow between two clusters with TLS, logins and ACLs (`ottla up --secure`), there and back."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.cli.session import read_properties
from ottla.client.admin import AdminClient
from ottla.client.admin.acls import Acl
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.mirror.migration.rights import copy_rights
from ottla.mirror.mirror import Mirror
from ottla.mirror.settings import read_settings
from ottla.mirror.switching.failback import Failback
from ottla.mirror.switching.failover import Failover
from ottla.model.access import Operation, ResourceType
from ottla.model.ids import TopicPartition
from tests.mirror.flows import has_no_lag, until
from tests.support.secured_up import SecuredUp


def test_a_flow_with_logins_on_both_sides(tmp_path: Path) -> None:
    with SecuredUp(tmp_path / "a") as source, SecuredUp(tmp_path / "b") as target:
        asyncio.run(asyncio.wait_for(work(source, target), 120))


async def work(source: SecuredUp, target: SecuredUp) -> None:
    clients = {
        alias: read_properties(str(where.file("client.properties"))) for alias, where in (("a", source), ("b", target))
    }
    properties = {
        "clusters": "a, b",
        "a->b.enabled": "true",
        "topics": "orders",
        "ottla.offsets": "exact",
        "emit.heartbeats.enabled": "false",
        **{f"{alias}.{key}": value for alias, client in clients.items() for key, value in client.items()},
    }
    assert properties["a.security.protocol"] == properties["b.security.protocol"] == "SASL_SSL"
    settings = read_settings(properties)
    (flow,) = settings.flows
    right = Acl(ResourceType.TOPIC, "orders", "User:anna", Operation.READ)
    async with AdminClient(clients["a"]) as admin:
        await admin.topics.create([NewTopic(name="orders", partitions=1)])
        await admin.acls.create([right])
        await admin.groups.alter_offsets("g", {TopicPartition("orders", 0): 7})
    await produce(clients["a"], "orders", range(10))
    mirror = Mirror(settings, runs_on="threads")
    ready = asyncio.Event()
    running = asyncio.ensure_future(mirror.run(ready.set))
    try:
        await ready.wait()
        await until(lambda: has_no_lag(settings))
        assert await read(clients["b"], "a.orders", 10) == list(range(10))
    finally:
        mirror.stop()
        await running
    for command in (Failover(flow), Failback(flow)):
        if isinstance(command, Failback):
            await produce(clients["b"], "a.orders", range(10, 15))
        try:
            report = await command.run()
        finally:
            await command.close()
        assert report.groups == {"g": 1}
    assert await read(clients["a"], "orders", 15) == list(range(15))
    async with AdminClient(clients["a"]) as old, AdminClient(clients["b"]) as new:
        rights = await copy_rights(old.connections, new.connections, dry_run=False)
        assert right in await new.acls.describe()
    assert (rights.not_copied, rights.users_without_password) == ([], [])


async def produce(client: dict[str, str], topic: str, numbers: range) -> None:
    async with Producer(client) as producer:
        for number in numbers:
            await producer.send_and_wait(topic, b"%d" % number, partition=0)


async def read(client: dict[str, str], topic: str, count: int) -> list[int]:
    numbers: list[int] = []
    async with Consumer(client) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        async with asyncio.timeout(60):
            while len(numbers) < count:
                numbers += [int(record.value) for record in await consumer.poll(200)]
    return numbers
