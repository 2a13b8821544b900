"""The partitions that kafka-get-offsets' options select."""

from __future__ import annotations

import re
from collections.abc import Callable

from ottla.cli.logic.words import topic_pattern

__all__ = ["parse_partition_filter"]

PartitionFilter = Callable[[str, int], bool]

_RULE = re.compile(r"([^:,]*)(?::(?:(\d*)(-?)(\d*)))?")


def parse_partition_filter(topic_partitions: str | None, topic: str, partitions: str | None) -> PartitionFilter:
    """`--topic-partitions topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3`, or a topic pattern and partitions.

    A range's upper end is not part of it, as with Kafka's tool.
    """
    if topic_partitions:
        rules = [_rule(part) for part in topic_partitions.split(",")]
        return lambda name, number: any(rule(name, number) for rule in rules)
    matches = topic_pattern(topic).fullmatch if topic else None
    numbers = None
    if partitions:
        words = partitions.split(",")
        if not all(word.strip().isdecimal() for word in words):
            raise ValueError(f"--partitions {partitions!r} is not a list like 0,1,2.")
        numbers = {int(word) for word in words}
    return lambda name, number: (
        (matches is None or matches(name) is not None) and (numbers is None or number in numbers)
    )


def _rule(text: str) -> PartitionFilter:
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} does not look like topic, topic:0, topic:0-3, topic:2- or topic:-2.")
    name, first, dash, end = match.groups()
    matches = topic_pattern(name).fullmatch if name else None
    low = int(first) if first else 0
    high = int(end) if end else None
    if not dash:
        high = low + 1 if first else None
    return lambda topic, number: (
        (matches is None or matches(topic) is not None) and (low <= number and (high is None or number < high))
    )
