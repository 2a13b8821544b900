"""From an exception to one sentence that says what to do next."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.errors import ClientError
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["Failure", "sentence_of", "suggestion"]

_NEXT = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "Add --if-not-exists to accept that.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'ottla topics list' shows all topics.",
    ErrorCode.UNKNOWN_TOPIC_ID: "'ottla topics list' shows all topics.",
    ErrorCode.GROUP_ID_NOT_FOUND: "'ottla groups list' shows all groups.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its members first; 'ottla groups describe --members' shows them.",
    ErrorCode.INVALID_PARTITIONS: "Partitions can be added, not taken away; 'ottla topics describe' shows how many.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "'ottla cluster describe' shows how many brokers there are.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "'ottla topics describe --under-min-isr-partitions' shows which partitions.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Ask an administrator for the permission.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Ask an administrator for the permission.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Ask an administrator for the permission.",
    ErrorCode.INVALID_CONFIG: "'ottla configs describe --all' shows names and values.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "'ottla transactions list' shows all transactional ids.",
    ErrorCode.FEATURE_UPDATE_FAILED: "'ottla features describe' shows the levels that can be chosen.",
    ErrorCode.INVALID_UPDATE_VERSION: "'ottla features describe' shows the levels that can be chosen.",
    ErrorCode.BROKER_NOT_AVAILABLE: "'ottla cluster describe --include-fenced-brokers' shows all brokers.",
    ErrorCode.UNSUPPORTED_VERSION: "The cluster is older than this command, or a feature is off.",
}


class Failure(Exception):
    """A command failed; the message is one sentence for the user."""

    def __init__(self, sentence: str, *, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def suggestion(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing if no known word is close."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def sentence_of(error: BaseException) -> str:
    """One or two sentences: what is wrong, and what to do."""
    if isinstance(error, KafkaError):
        sentence = _ended(error.message or error.code.message)
        # The error code is added only where the sentence alone cannot be looked up in Kafka's documentation.
        name = "" if error.code == ErrorCode.NONE else f" ({error.code.name})"
        return " ".join(part for part in (f"{sentence[:-1]}{name}.", _NEXT.get(error.code)) if part)
    if isinstance(error, Failure | ClientError):
        return _ended(str(error))
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return _ended(f"{name}{error.strerror or error}")
    if isinstance(error, ValueError):
        return _ended(str(error))
    return f"Unexpected error ({type(error).__name__}: {error}). Set OTTLA_TRACEBACK=1 to see the traceback."


def _ended(text: str) -> str:
    stripped = text.strip()
    return stripped if stripped.endswith((".", "?", "!")) else f"{stripped}."
