"""What every decision of the controller is given and gives.

A decision is a pure function of the newest image (uncommitted changes included, since they come before it in the log),
the request, and the context below. It returns the records that would make it true and the answer that becomes valid
once they are committed; it assigns nothing. Time and chance come in through the context.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.metadata.image import MetadataImage
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid

__all__ = [
    "DECISION_BYTES_MAX",
    "Decision",
    "DecisionContext",
    "ensure_bounded",
    "Liveness",
    "RECORDS_PER_DECISION_MAX",
    "default_directory",
    "repeated",
    "too_large",
]

R = TypeVar("R")
H = TypeVar("H", bound=Hashable)

# What one request may write, as in Apache Kafka: a decision is one batch, and a batch has to fit into memory and into
# one fetch of a follower.
RECORDS_PER_DECISION_MAX = 10_000
# And how many bytes: a journal takes a batch that claims much more for damage, and nobody could open it again. A value
# of a configuration may be as long as a request; the changes that fence a broker are some 50 bytes a partition.
DECISION_BYTES_MAX = 32 << 20


# A broker whose connection was closed at its end has this part of a session to be heard on another.
_LOST_CONNECTION_SHARE = 2


class Liveness:
    """What heartbeats tell; it is not in the log, and a new controller learns it anew.

    Times are by broker id and of a clock that does not jump (`steady_ms`): a wall clock that is set back would keep
    the dead in session, and one that is set forward would fence everybody. A broker that was not heard of is missing.
    """

    __slots__ = (
        "_connections",
        "_lost_ms",
        "fenced_offsets",
        "last_contact_ms",
        "metadata_offsets",
        "shutdown_offsets",
    )

    def __init__(self) -> None:
        self.last_contact_ms: dict[int, int] = {}
        # The connection that a broker was last heard on, and when it was closed at the other end.
        self._connections: dict[int, str] = {}
        self._lost_ms: dict[int, int] = {}
        # How far each broker has read the metadata log.
        self.metadata_offsets: dict[int, int] = {}
        # The end of the log when a broker began its controlled shutdown: others must have read that far before it
        # stops.
        self.shutdown_offsets: dict[int, int] = {}
        # The end of the log when a silent broker was fenced: it must have read that far before it takes part again.
        self.fenced_offsets: dict[int, int] = {}

    def heard(self, broker_id: int, *, now_ms: int, connection_id: str = "") -> None:
        self.last_contact_ms[broker_id] = now_ms
        self._connections[broker_id] = connection_id
        self._lost_ms.pop(broker_id, None)

    def lost(self, broker_id: int, *, now_ms: int, connection_id: str) -> None:
        """Its connection was closed. A process that lives opens the next one at once; one that was killed does not."""
        if self._connections.get(broker_id) == connection_id:
            self._lost_ms.setdefault(broker_id, now_ms)

    def forget(self, broker_id: int) -> None:
        self.last_contact_ms.pop(broker_id, None)
        self._connections.pop(broker_id, None)
        self._lost_ms.pop(broker_id, None)
        self.metadata_offsets.pop(broker_id, None)
        self.shutdown_offsets.pop(broker_id, None)
        self.fenced_offsets.pop(broker_id, None)

    def excuse(self, held_up_ms: int) -> None:
        """A controller that was held up itself has heard nobody in that time, which says nothing about them."""
        for broker_id in self.last_contact_ms:
            self.last_contact_ms[broker_id] += held_up_ms
        for broker_id in self._lost_ms:
            self._lost_ms[broker_id] += held_up_ms

    def session_end_ms(self, broker_id: int, *, session_timeout_ms: int) -> int:
        """When it runs out if nothing more is heard; 0 when nothing ever was."""
        last = self.last_contact_ms.get(broker_id)
        if last is None:
            return 0
        end = last + session_timeout_ms
        lost = self._lost_ms.get(broker_id)
        return end if lost is None else min(end, lost + session_timeout_ms // _LOST_CONNECTION_SHARE)

    def has_session(self, broker_id: int, *, now_ms: int, session_timeout_ms: int) -> bool:
        return now_ms < self.session_end_ms(broker_id, session_timeout_ms=session_timeout_ms)


class DecisionContext(NamedTuple):
    image: MetadataImage
    config: BrokerConfig
    now_ms: int
    random: Random
    # The offset that the decision's first record will have: broker epochs are made of it.
    next_offset: int
    liveness: Liveness
    # Milliseconds that only pass, for sessions; `now_ms` is what a wall clock shows.
    steady_ms: int = 0
    # Which topics' configurations the caller may see.
    may_describe_configs: Callable[[str], bool] = lambda _name: True
    # The version of the request, for answers whose code depends on it.
    api_version: int = 32767
    # Asked before so many partitions are created or deleted; raises KafkaError when it is too soon (KIP-599).
    take_mutations: Callable[[int], object] = lambda _partitions: None


class Decision(NamedTuple, Generic[R]):
    records: list[Any]
    response: R


def ensure_bounded(record_count: int) -> None:
    if record_count > RECORDS_PER_DECISION_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the request would write {record_count} metadata records at once; "
            f"at most {RECORDS_PER_DECISION_MAX} are allowed, so please split it",
        )


def too_large(size_bytes: int) -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION,
        f"the request would write {size_bytes} bytes of metadata at once; at most {DECISION_BYTES_MAX} are allowed",
    )


def default_directory(image: MetadataImage, broker_id: int) -> Uuid:
    """Where a new replica of this broker lies as far as the controller knows.

    A broker with one directory has no choice; one with several chooses itself and tells later (KIP-858), which the
    zero id ("unassigned") stands for.
    """
    broker = image.cluster.brokers.get(broker_id)
    if broker is not None and len(broker.directories) == 1:
        return broker.directories[0]
    return Uuid.ZERO


def repeated(values: Iterable[H]) -> set[H]:
    """What a request names more than once."""
    seen: set[H] = set()
    twice: set[H] = set()
    for value in values:
        (twice if value in seen else seen).add(value)
    return twice
