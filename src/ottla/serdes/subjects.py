"""Subject name strategies: the subject of the schema of a key or value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

__all__ = [
    "AssociatedNames",
    "SubjectStrategy",
    "associated_name",
    "context_prefix",
    "in_context_of",
    "record_name",
    "subject_strategy",
    "topic_name",
    "topic_record_name",
]

# Takes the topic, `is_key`, and the full name of the record, which some schemas lack. Returns the subject.
# Deserializers ask with None for the context of a schema id: they do not know the record before they have the schema.
SubjectStrategy = Callable[[str, bool, str | None], str]


def context_prefix(subject: str) -> str:
    """`:.lab:` of `:.lab:orders-value`; empty for a subject in the default context."""
    context, separator, _ = subject[1:].partition(":")
    return f":{context}:" if subject.startswith(":.") and separator and context != "." else ""


def in_context_of(referrer: str, subject: str) -> str:
    """The full name of a subject that a schema of the referrer refers to: without a context it is in the same one."""
    prefix = context_prefix(referrer)
    return prefix + subject.removeprefix(":.:") if prefix and not context_prefix(subject) else subject


def topic_name(topic: str, is_key: bool, record: str | None) -> str:
    """`orders-value`: all values of a topic have one schema that evolves."""
    del record
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, record: str | None) -> str:
    """`com.shop.Order`: a record has the same schema in all topics."""
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
    """`associated_name` with a registry. Associations are requested once; without one, the fallback is used.

    `ask` returns the registry's answer to a path, and None for 404.
    """

    def __init__(self, ask: Callable[[str], Any], config: Mapping[str, Any]) -> None:
        self._ask = ask
        self._namespace = str(config.get("subject.name.strategy.kafka.cluster.id") or "-")
        fallback = str(config.get("subject.name.strategy.fallback.type") or "TOPIC").upper()
        if fallback not in _FALLBACKS:
            names = ", ".join(_FALLBACKS)
            raise ValueError(f"subject.name.strategy.fallback.type={fallback} is not one of {names}.")
        self._fallback = _FALLBACKS[fallback]
        self._subjects: dict[tuple[str, bool], str | None] = {}

    def __call__(self, topic: str, is_key: bool, record: str | None) -> str:
        cache_key = (topic, is_key)
        if cache_key not in self._subjects:
            path = f"/associations/resources/{quote(self._namespace, safe='')}/{quote(topic, safe='')}"
            kind = "key" if is_key else "value"
            associations = self._ask(f"{path}?resourceType=topic&associationType={kind}") or []
            if len(associations) > 1:
                raise ValueError(f"several subjects are associated with the {kind} of {topic}")
            self._subjects[cache_key] = str(associations[0]["subject"]) if associations else None
        subject = self._subjects[cache_key]
        if subject is not None:
            return subject
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


def subject_strategy(name_or_strategy: str | SubjectStrategy | None) -> SubjectStrategy:
    """A strategy by the name of its Java class, with or without the package, or a function. Raises ValueError."""
    if name_or_strategy is None:
        return topic_name
    if callable(name_or_strategy):
        return name_or_strategy
    short = name_or_strategy.rpartition(".")[2].lower().replace("_", "")
    strategy = _STRATEGIES.get(short if short.endswith("strategy") else f"{short}strategy")
    if strategy is None:
        names = "TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy, AssociatedNameStrategy"
        raise ValueError(f"The subject name strategy {name_or_strategy!r} is not one of {names}.")
    return strategy


def _named(record: str | None) -> str:
    if not record:
        raise ValueError("the schema has no name, but the subject name strategy needs one")
    return record
