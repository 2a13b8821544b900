"""Requests that all instances of an application shut down: the request is part of a subscription of its group."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ottla.client.admin.groups import Groups
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.streams.runtime.assignment import TaskAssignor, task_places
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.plan import TaskPlan

__all__ = ["announce_shutdown"]

# Members learn of the request with their next heartbeat.
_ANNOUNCE_SECONDS = 10.0


async def announce_shutdown(config: ApplicationConfig, plan: TaskPlan, identity: WorkerIdentity) -> None:
    """Joins the group with the request, and stays until all other members have left."""
    settings = replace(
        config.consumer,
        group_id=config.application_id,
        group_instance_id=identity.instance_id,
        assignors=(TaskAssignor(plan, identity, asks_shutdown=True),),
    )
    cluster = Cluster(config.client)
    loop = asyncio.get_running_loop()
    end = loop.time() + _ANNOUNCE_SECONDS
    try:
        async with Consumer(cluster, settings) as consumer:
            await consumer.subscribe(sorted({place.topic for task in plan.tasks for place in task_places(task)}))
            while loop.time() < end:
                await consumer.raw_batches(settings.heartbeat_interval_ms)
                consumer.pause(*consumer.assignment)
                group = (await Groups(cluster).describe([config.application_id]))[config.application_id]
                if isinstance(group, KafkaError) or {member.instance_id for member in group.members} == {
                    identity.instance_id
                }:
                    break
        await Groups(cluster).remove_members(config.application_id, [identity.instance_id])
    except (KafkaError, ClientError):
        # The cluster is gone; the other instances notice that as well.
        return
    finally:
        await cluster.close()
