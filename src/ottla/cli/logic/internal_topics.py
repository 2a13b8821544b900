"""Which topics belong to a streams application: repartition topics, changelogs and those of foreign-key joins."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["internal_topics", "is_worker_of"]

_SUFFIXES = ("-changelog", "-repartition")
_FOREIGN_KEY = re.compile(
    r"-KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d{10}-topic\Z|-subscription-(?:registration|response)-topic\Z"
)


def internal_topics(application_id: str, names: Iterable[str]) -> list[str]:
    """The names that Kafka Streams gives to the topics of an application."""
    prefix = f"{application_id}-"
    return sorted(
        name for name in names if name.startswith(prefix) and (name.endswith(_SUFFIXES) or _FOREIGN_KEY.search(name))
    )


def is_worker_of(application_id: str, transactional_id: str) -> bool:
    """True for the transactional ids of an application's workers, in Python and in Java (exactly_once_v2)."""
    uuid = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+"
    return re.fullmatch(rf"{re.escape(application_id)}-(?:\d+|{uuid})", transactional_id) is not None
