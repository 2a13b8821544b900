"""The argument formats of Kafka's tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ottla.model.ids import TopicPartition

__all__ = [
    "matching",
    "parse_assignments",
    "parse_key_values",
    "parse_node_ids",
    "parse_partition",
    "parse_settings",
    "parse_topic_partitions",
    "topic_pattern",
]

# One setting and the comma behind it.
_SETTING = re.compile(r"\s*([^=,\s][^=,]*)=(?:\[([^\]]*)\]|([^,]*))(?:,\s*|$)")


def parse_key_values(words: Iterable[str], *, option: str, literal: bool = False) -> dict[str, str]:
    """`k=v`, repeated. A literal value keeps the spaces around it, such as one that separates keys from values."""
    pairs = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key.strip():
            raise ValueError(f"{option} {word!r} does not look like key=value.")
        pairs[key.strip()] = value if literal else value.strip()
    return pairs


def parse_settings(text: str) -> dict[str, str]:
    """`k1=v1,k2=[a,b],k3=v3`: a value in brackets may contain commas, as with --add-config."""
    pairs = {}
    position = 0
    while position < len(text):
        match = _SETTING.match(text, position)
        if match is None:
            raise ValueError(f"{text!r} does not look like key=value[,key=value]; put a value with commas into [ ].")
        key, bracketed, plain = match.groups()
        pairs[key.strip()] = (bracketed or plain or "").strip()
        position = match.end()
    if not pairs:
        raise ValueError(f"{text!r} does not look like key=value[,key=value]; put a value with commas into [ ].")
    return pairs


def parse_assignments(text: str) -> dict[int, list[int]]:
    """`0:1,1:2,2:0` -> replicas by partition, in order; all partitions must have the same number."""
    by_partition: dict[int, list[int]] = {}
    for partition, part in enumerate(text.split(",")):
        words = part.strip().split(":")
        if not all(word.isdecimal() for word in words):
            raise ValueError(f"{part!r} is not a list of broker ids like 1:2:3.")
        replicas = [int(word) for word in words]
        if len(set(replicas)) != len(replicas):
            raise ValueError(f"Partition {partition} names a broker twice: {part!r}.")
        by_partition[partition] = replicas
    if len({len(replicas) for replicas in by_partition.values()}) != 1:
        raise ValueError("All partitions must have the same number of replicas.")
    return by_partition


def parse_node_ids(text: str, *, option: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise ValueError(f"{option} {text!r} is not a list of broker ids like 1,2,3.")
    return [int(word) for word in words]


def parse_partition(text: str) -> TopicPartition:
    """`topic-0` or `topic:0`."""
    match = re.fullmatch(r"(.+)[:-](\d+)", text)
    if match is None:
        raise ValueError(f"{text!r} does not look like topic:partition.")
    return TopicPartition(match[1], int(match[2]))


def parse_topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """`topic` or `topic:0,1,2-4`; None stands for all partitions."""
    topic, separator, rest = text.partition(":")
    if not separator:
        return text, None
    numbers: list[int] = []
    for word in rest.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", word)
        if match is None:
            raise ValueError(f"{text!r} does not look like topic:0,1,2.")
        first = int(match[1])
        numbers += range(first, int(match[2]) + 1) if match[2] else [first]
    return topic, numbers


def topic_pattern(text: str) -> re.Pattern[str]:
    """The pattern of --topic: a regular expression if it has special characters; commas separate alternatives."""
    alternatives = "|".join(part.strip() for part in text.split(",") if part.strip())
    try:
        return re.compile(alternatives)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}.") from None


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that any pattern matches in full; all names without a pattern."""
    if not patterns:
        return sorted(names)
    compiled = [topic_pattern(pattern) for pattern in patterns]
    return sorted(name for name in names if any(pattern.fullmatch(name) for pattern in compiled))
