"""Under which subject the schema of a key or value is registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

__all__ = [
    "AssociatedNames",
    "SubjectStrategy",
    "associated_name",
    "record_name",
    "subject_strategy",
    "topic_name",
    "topic_record_name",
]

# Of the topic, whether it is a key, and the full name of the record, which some schemas do not have.
SubjectStrategy = Callable[[str, bool, str | None], str]


def topic_name(topic: str, is_key: bool, record: str | None) -> str:
    """`orders-value`: all values of a topic have one schema that evolves."""
    del record
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, record: str | None) -> str:
    """`com.shop.Order`: a record has one schema in all topics."""
    del topic, is_key
    return _named(record)


def topic_record_name(topic: str, is_key: bool, record: str | None) -> str:
    """`orders-com.shop.Order`: a topic has records of several kinds."""
    del is_key
    return f"{topic}-{_named(record)}"


def associated_name(topic: str, is_key: bool, record: str | None) -> str:
    """The registry's own association of topic and subject; without a registry, as `topic_name`."""
    return topic_name(topic, is_key, record)


class AssociatedNames:
    """`associated_name` with a registry. An association is asked for once; without one, the fallback names the subject.

    `ask` gives the answer of the registry to a path, and None for 404.
    """

    def __init__(self, ask: Callable[[str], Any], config: Mapping[str, Any]) -> None:
        self._ask = ask
        self._namespace = str(config.get("subject.name.strategy.kafka.cluster.id") or "-")
        fallback = str(config.get("subject.name.strategy.fallback.type") or "TOPIC").upper()
        if fallback not in _FALLBACKS:
            names = ", ".join(_FALLBACKS)
            raise ValueError(f"subject.name.strategy.fallback.type={fallback} is not one of {names}.")
        self._fallback = _FALLBACKS[fallback]
        self._known: dict[tuple[str, bool], str | None] = {}

    def __call__(self, topic: str, is_key: bool, record: str | None) -> str:
        place = (topic, is_key)
        if place not in self._known:
            path = f"/associations/resources/{quote(self._namespace, safe='')}/{quote(topic, safe='')}"
            kind = "key" if is_key else "value"
            found = self._ask(f"{path}?resourceType=topic&associationType={kind}") or []
            if len(found) > 1:
                raise ValueError(f"several subjects are associated with the {kind} of {topic}")
            self._known[place] = str(found[0]["subject"]) if found else None
        known = self._known[place]
        if known is not None:
            return known
        if self._fallback is None:
            raise ValueError(f"no subject is associated with {topic}, and subject.name.strategy.fallback.type is NONE")
        return self._fallback(topic, is_key, record)


_FALLBACKS: dict[str, SubjectStrategy | None] = {
    "TOPIC": topic_name,
    "RECORD": record_name,
    "TOPIC_RECORD": topic_record_name,
    "NONE": None,
}


_STRATEGIES: dict[str, SubjectStrategy] = {
    "topicnamestrategy": topic_name,
    "recordnamestrategy": record_name,
    "topicrecordnamestrategy": topic_record_name,
    "associatednamestrategy": associated_name,
}


def subject_strategy(given: str | SubjectStrategy | None) -> SubjectStrategy:
    """A strategy by the name of its Java class, with or without the package, or a function. Raises ValueError."""
    if given is None:
        return topic_name
    if callable(given):
        return given
    short = given.rpartition(".")[2].lower().replace("_", "")
    found = _STRATEGIES.get(short if short.endswith("strategy") else f"{short}strategy")
    if found is None:
        names = "TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy, AssociatedNameStrategy"
        raise ValueError(f"The subject name strategy {given!r} is not one of {names}.")
    return found


def _named(record: str | None) -> str:
    if not record:
        raise ValueError("the schema has no name, but the subject name strategy needs one")
    return record
