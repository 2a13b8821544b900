"""Under which subject the schema of a key or value is registered."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["SubjectStrategy", "associated_name", "record_name", "subject_strategy", "topic_name", "topic_record_name"]

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
    """The registry's own association of topic and subject; without one, as `topic_name`."""
    return topic_name(topic, is_key, record)


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
