"""Reassignment plans: Kafka's JSON, and a proposal that spreads replicas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.model.ids import TopicPartition

__all__ = [
    "Plan",
    "format_plan",
    "parse_plan",
    "parse_topics",
    "propose",
]


class Plan(NamedTuple):
    replicas: dict[TopicPartition, list[int]]
    # (broker, partition) -> directory, where the plan names one.
    directories: dict[tuple[int, TopicPartition], str]


def parse_topics(text: str) -> list[str]:
    """`{"version": 1, "topics": [{"topic": "a"}]}`."""
    content = _json(text)
    try:
        return [str(entry["topic"]) for entry in content["topics"]]
    except (KeyError, TypeError):
        raise ValueError('The file must look like {"version": 1, "topics": [{"topic": "name"}]}.') from None


def parse_plan(text: str) -> Plan:
    """`{"version": 1, "partitions": [{"topic", "partition", "replicas", "log_dirs"}]}`."""
    content = _json(text)
    replicas: dict[TopicPartition, list[int]] = {}
    directories: dict[tuple[int, TopicPartition], str] = {}
    try:
        for entry in content["partitions"]:
            partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            wanted = [int(broker) for broker in entry["replicas"]]
            paths = entry.get("log_dirs", ["any"] * len(wanted))
            if partition in replicas:
                raise ValueError(f"{partition} is in the plan twice.")
            if len(set(wanted)) != len(wanted) or not wanted:
                raise ValueError(f"{partition} must have replicas, each broker once: {wanted}.")
            if len(paths) != len(wanted):
                raise ValueError(f"{partition} has {len(wanted)} replicas and {len(paths)} directories.")
            replicas[partition] = wanted
            directories |= {
                (broker, partition): path for broker, path in zip(wanted, paths, strict=True) if path != "any"
            }
    except (KeyError, TypeError):
        raise ValueError('The file must look like {"version": 1, "partitions": [...]}.') from None
    if not replicas:
        raise ValueError("The plan has no partitions.")
    return Plan(replicas, directories)


def format_plan(
    replicas: Mapping[TopicPartition, Sequence[int]],
    directories: Mapping[tuple[int, TopicPartition], str] | None = None,
) -> str:
    paths = directories or {}
    return json.dumps(
        {
            "version": 1,
            "partitions": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "replicas": list(wanted),
                    "log_dirs": [paths.get((broker, partition), "any") for broker in wanted],
                }
                for partition, wanted in sorted(replicas.items())
            ],
        },
        separators=(",", ":"),
    )


def propose(
    current: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    *,
    hosts: Mapping[int, str] | None = None,
    start: int = 0,
) -> dict[TopicPartition, list[int]]:
    """Replicas over the given brokers: leaders in turn, followers on other machines, then on other racks first.

    Brokers with the same host name are one machine, as for the placement of new partitions. The number of moves is not
    minimized; Kafka's tool proposes the same kind of plan, but does not know machines.
    """
    machines: Mapping[int, object] = hosts or {broker: broker for broker in racks}
    brokers = _by_rack(racks)
    loads = dict.fromkeys(brokers, 0)
    proposed: dict[TopicPartition, list[int]] = {}
    for number, (partition, replicas) in enumerate(sorted(current.items())):
        if len(replicas) > len(brokers):
            raise ValueError(f"{partition} has {len(replicas)} replicas, but only {len(brokers)} brokers are given.")
        leader = brokers[(start + number) % len(brokers)]
        chosen = [leader]
        while len(chosen) < len(replicas):
            used = {racks[broker] for broker in chosen}
            occupied = {machines[broker] for broker in chosen}
            candidates = [broker for broker in brokers if broker not in chosen]
            position = brokers.index(chosen[-1])
            chosen.append(
                min(
                    candidates,
                    key=lambda broker: (
                        machines[broker] in occupied,
                        racks[broker] is not None and racks[broker] in used,
                        loads[broker],
                        (brokers.index(broker) - position) % len(brokers),
                    ),
                )
            )
        for broker in chosen:
            loads[broker] += 1
        proposed[partition] = chosen
    return proposed


def _by_rack(racks: Mapping[int, str | None]) -> list[int]:
    """Brokers ordered so that neighbours are in different racks, as far as possible."""
    lists: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        lists.setdefault(racks[broker], []).append(broker)
    ordered: list[int] = []
    while any(lists.values()):
        ordered += [lists[rack].pop(0) for rack in sorted(lists, key=str) if lists[rack]]
    return ordered


def _json(text: str) -> Any:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"The file is not JSON: {error}.") from None
    if not isinstance(content, dict) or content.get("version", 1) != 1:
        raise ValueError("The file must be an object of version 1.")
    return content
