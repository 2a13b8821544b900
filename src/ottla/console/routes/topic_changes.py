"""Changes of topics: create, settings, partitions, records, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ottla.client.admin.configs import ConfigChange, ConfigOperation, ConfigResource, ResourceType
from ottla.client.admin.topics import CreatedTopic, NewTopic
from ottla.client.errors import ClientError
from ottla.client.metadata import TopicInfo
from ottla.console.answers import invalid
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.routes.topics import offset_bounds, topic_of
from ottla.console.sensitive import ELIDED, is_secret_setting
from ottla.console.words import count_of, raise_first
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["TOPIC_CHANGES", "settings_change"]

SEEN_SECONDS_MAX = 3.0
SEEN_PAUSE_SECONDS = 0.02


async def _create(call: Call) -> Change:
    name = call.text("name")
    partitions, factor = call.whole("partitions", -1), call.whole("replication_factor", -1)
    settings = call.texts("settings")
    topic = NewTopic(name=name, partitions=partitions, replication_factor=factor, configs=settings)

    async def create(*, validate_only: bool) -> dict[str, Any]:
        created = (await call.admin.topics.create([topic], validate_only=validate_only))[name]
        if isinstance(created, KafkaError):
            raise created
        if not validate_only:
            await _until(call, name, lambda info: info is not None)
        return _created(created)

    how_many = "the cluster's number of partitions" if partitions < 0 else count_of(partitions, "partition")
    copies = "the cluster's number of replicas" if factor < 0 else count_of(factor, "replica")
    plan = [f"Creates topic {name} with {how_many} and {copies}."]
    resource = ConfigResource(ResourceType.TOPIC, name)
    shown = {key: ELIDED if is_secret_setting(resource, key, None) else value for key, value in settings.items()}
    plan += [f"Sets {key} to {value}." for key, value in shown.items()]
    return Change(
        plan=plan,
        command=command_line(
            "topics",
            "create",
            name,
            options=[
                ("--partitions", None if partitions < 0 else partitions),
                ("--replication-factor", None if factor < 0 else factor),
                *[("--config", f"{key}={value}") for key, value in shown.items()],
            ],
        ),
        apply=lambda: create(validate_only=False),
        validate=lambda: create(validate_only=True),
        warnings=["One replica: what its broker loses is lost."] if factor == 1 and await _brokers(call) > 1 else [],
    )


async def _until(call: Call, name: str, is_seen: Callable[[TopicInfo | None], bool]) -> None:
    """Waits until the brokers, which lag behind the controller, have the change, so that the next page shows it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SEEN_SECONDS_MAX
    while loop.time() < deadline:
        info: TopicInfo | None = None
        with suppress(KafkaError, ClientError):
            info = await call.admin.connections.fresh_topic(name)
        if is_seen(info):
            return
        await asyncio.sleep(SEEN_PAUSE_SECONDS)


async def _brokers(call: Call) -> int:
    return len((await call.view.state.get()).brokers)


def _created(topic: CreatedTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": str(topic.topic_id),
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
    }


async def settings_change(call: Call, resource: ConfigResource, *, owner: str, option: tuple[str, object]) -> Change:
    """Settings of any resource: `set` and `unset` of the body. `option` names the resource on the command line."""
    wanted, unset = call.texts("set"), call.names("unset")
    if not wanted and not unset:
        raise invalid("The body needs 'set' or 'unset'.")
    changes = [ConfigChange(name, value) for name, value in wanted.items()]
    changes += [ConfigChange(name, None, ConfigOperation.DELETE) for name in unset]

    async def alter(*, validate_only: bool) -> dict[str, Any]:
        raise_first((await call.admin.configs.alter({resource: changes}, validate_only=validate_only)).values())
        return {"changed": [change.name for change in changes]}

    described = (await call.admin.configs.describe([resource], keys=[change.name for change in changes])).get(resource)
    if isinstance(described, KafkaError):
        raise described
    before = {entry.name: entry for entry in described or ()}
    secret = {name for name in wanted if is_secret_setting(resource, name, before.get(name))}
    plan = []
    for name, value in wanted.items():
        now = before[name].value if name in before and name not in secret else None
        shown = "a new value" if name in secret else value
        plan.append(f"Sets {name} of {owner} to {shown}{'' if now is None else f' (now {now})'}.")
    plan += [f"Removes {name} of {owner}; the cluster's value counts then." for name in unset]
    options: list[tuple[str, object]] = [option]
    options += [("--set", f"{name}={ELIDED if name in secret else value}") for name, value in wanted.items()]
    options += [("--unset", name) for name in unset]
    return Change(
        plan=plan,
        command=command_line("configs", "alter", options=options),
        apply=lambda: alter(validate_only=False),
        validate=lambda: alter(validate_only=True),
    )


async def _settings(call: Call) -> Change:
    name = call.part("name")
    await topic_of(call, name)
    resource = ConfigResource(ResourceType.TOPIC, name)
    return await settings_change(call, resource, owner=f"topic {name}", option=("--topic", name))


async def _grow(call: Call) -> Change:
    info = await topic_of(call, call.part("name"))
    name, count, now = info.name, call.whole("count"), len(info.partitions)
    if count <= now:
        raise invalid(f"{name} has {count_of(now, 'partition')} already.", "Partitions can be added, not taken away.")

    async def grow() -> dict[str, Any]:
        raise_first((await call.admin.topics.grow({name: count})).values())
        await _until(call, name, lambda info: info is not None and len(info.partitions) >= count)
        return {"partitions": count}

    return Change(
        plan=[f"Adds {count_of(count - now, 'partition')} to topic {name}, which has {now}."],
        command=command_line("topics", "alter", name, options=[("--partitions", count)]),
        apply=grow,
        warnings=["Records with the same key may go to another partition from now on.", "This cannot be undone."],
    )


async def _delete_records(call: Call) -> Change:
    info = await topic_of(call, call.part("name"))
    wanted = call.body.get("before")
    if not isinstance(wanted, dict) or not wanted:
        raise invalid("The body needs 'before', an object like {\"0\": 100}.")
    before: dict[TopicPartition, int] = {}
    for number, offset in wanted.items():
        if not str(number).isdecimal() or int(number) not in info.partitions or type(offset) is not int:
            raise invalid(f"{info.name} has no partition {number!r}, or {offset!r} is no offset.")
        before[TopicPartition(info.name, int(number))] = offset
    bounds = await offset_bounds(call, list(before))

    async def delete() -> dict[str, Any]:
        answers = await call.admin.offsets.delete_records(before)
        raise_first(answers.values())
        return {"first_offsets": {str(partition.partition): offset for partition, offset in answers.items()}}

    plan = []
    for partition, offset in before.items():
        first, last = bounds.get(partition, (0, 0))
        end = last if offset == -1 else offset
        plan.append(f"Deletes {max(end - first, 0)} records of {partition}: those before offset {end}.")
    return Change(
        plan=plan,
        command=command_line(
            "delete-records",
            *[f"{partition.topic}:{partition.partition}:{offset}" for partition, offset in before.items()],
            "--yes",
        ),
        apply=delete,
        warnings=["Deleted records cannot be brought back."],
    )


async def _delete(call: Call) -> Change:
    info = await topic_of(call, call.part("name"))

    async def delete() -> dict[str, Any]:
        raise_first((await call.admin.topics.delete([info.name])).values())
        await _until(call, info.name, lambda topic: topic is None)
        return {"deleted": info.name}

    bounds = await offset_bounds(call, [TopicPartition(info.name, number) for number in info.partitions])
    records = sum(last - first for first, last in bounds.values())
    return Change(
        plan=[f"Deletes topic {info.name} with {count_of(len(info.partitions), 'partition')} and {records} records."],
        command=command_line("topics", "delete", info.name, "--yes"),
        apply=delete,
        warnings=["A deleted topic cannot be brought back."]
        + ([f"{info.name} is an internal topic: the cluster needs it."] if info.is_internal else []),
    )


TOPIC_CHANGES = (
    Route("POST", "/api/topics", _create, Need.WRITE),
    Route("PUT", "/api/topics/{name}/settings", _settings, Need.WRITE),
    Route("POST", "/api/topics/{name}/partitions", _grow, Need.WRITE),
    Route("POST", "/api/topics/{name}/delete-records", _delete_records, Need.WRITE),
    Route("DELETE", "/api/topics/{name}", _delete, Need.WRITE),
)
