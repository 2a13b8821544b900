"""Offsets seen and changed from outside: of sources in the offset store, of sinks as those of their consumer group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.connect.api import ConnectError, Connector
from ottla.connect.control.request_errors import RequestError, bad_request
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.connect.control.herder import Herder

__all__ = ["alter_offsets", "describe_offsets", "reset_offsets"]

_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


async def describe_offsets(herder: Herder, name: str, *, is_sink: bool) -> dict[str, Any]:
    if is_sink:
        found = await Groups(herder.cluster).offsets(_group_id(herder, name))
        return {
            "offsets": [
                {"partition": {_PARTITION: one.partition, _TOPIC: one.topic}, "offset": {_OFFSET: committed.offset}}
                for one, committed in found.items()
            ]
        }
    await herder.offsets.refresh()
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in herder.offsets.of(name)]}


async def alter_offsets(herder: Herder, name: str, offsets: list[dict[str, Any]], *, is_sink: bool) -> dict[str, Any]:
    pairs = [(each["partition"], each.get("offset")) for each in offsets]
    checked = _parse_sink(pairs) if is_sink else {}
    looked_at = await _ask_connector(herder, name, pairs)
    if is_sink:
        await _alter_group(herder, name, checked)
    else:
        await herder.offsets.refresh()
        await herder.offsets.put(name, pairs)
    return _altered(looked_at=looked_at)


async def reset_offsets(herder: Herder, name: str, *, is_sink: bool) -> dict[str, Any]:
    current = (await describe_offsets(herder, name, is_sink=is_sink))["offsets"]
    pairs = [(each["partition"], None) for each in current]
    looked_at = await _ask_connector(herder, name, pairs)
    if is_sink:
        group_id = _group_id(herder, name)
        error = (await Groups(herder.cluster).delete([group_id]))[group_id]
        if error is not None and error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise RequestError(500, f"The offsets of {group_id} cannot be removed: {error}")
    else:
        await herder.offsets.put(name, pairs)
    if not looked_at:
        return {"message": "The offsets were reset, as far as the worker knows: the connector itself did not check."}
    return {"message": "The offsets were reset."}


def _altered(*, looked_at: bool) -> dict[str, Any]:
    if not looked_at:
        return {"message": "The offsets were altered, as far as the worker knows: the connector itself did not check."}
    return {"message": "The offsets were altered."}


async def _ask_connector(herder: Herder, name: str, pairs: list[tuple[Any, Any]]) -> bool:
    config = herder.resolved_config(name)
    connector: Connector = herder.plugins.connector(config["connector.class"])()
    try:
        return await asyncio.to_thread(connector.alter_offsets, config, pairs)
    except ConnectError as error:
        raise bad_request(str(error)) from None


def _group_id(herder: Herder, name: str) -> str:
    return herder.resolved_config(name).get("consumer.override.group.id", f"connect-{name}")


def _parse_sink(pairs: list[tuple[Any, Any]]) -> dict[TopicPartition, int | None]:
    found: dict[TopicPartition, int | None] = {}
    for partition, offset in pairs:
        if not isinstance(partition, dict) or _TOPIC not in partition or _PARTITION not in partition:
            raise bad_request(f"The partition of a sink's offset has the fields {_TOPIC} and {_PARTITION}.")
        if offset is not None and (not isinstance(offset, dict) or _OFFSET not in offset):
            raise bad_request(f"A sink's offset has the field {_OFFSET}.")
        try:
            number = int(partition[_PARTITION])
            value = None if offset is None else int(offset[_OFFSET])
        except (TypeError, ValueError):
            raise bad_request("Partitions and offsets of topics are numbers.") from None
        if value is not None and value < 0:
            raise bad_request("The offset of a topic is not negative.")
        found[TopicPartition(str(partition[_TOPIC]), number)] = value
    return found


async def _alter_group(herder: Herder, name: str, offsets: dict[TopicPartition, int | None]) -> None:
    groups, group_id = Groups(herder.cluster), _group_id(herder, name)
    kept = {one: CommittedOffset(offset) for one, offset in offsets.items() if offset is not None}
    removed = [one for one, offset in offsets.items() if offset is None]
    errors: list[KafkaError] = []
    if kept:
        errors += [error for error in (await groups.alter_offsets(group_id, kept)).values() if error is not None]
    if removed:
        errors += [error for error in (await groups.delete_offsets(group_id, removed)).values() if error is not None]
    if errors:
        raise RequestError(500, f"The offsets of {group_id} cannot be changed: {errors[0]}")
