"""The input and output of every decision of the controller.

A decision is a function of a request and of the context below. It sees the newest image, with uncommitted changes,
because those precede its own records in the log. It returns the records to append and the response to send once they
are committed. It changes no state except the broker sessions (`Liveness`), which are not in the log. Time and
randomness come from the context.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol, TypeVar

from ottla.decisions import Decision as BaseDecision
from ottla.metadata.controller.gateway import Caller
from ottla.metadata.controller.liveness import Liveness
from ottla.metadata.image import MetadataImage
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid

__all__ = [
    "DECISION_BYTES_MAX",
    "Decision",
    "DecisionContext",
    "KraftVersion",
    "RECORDS_PER_DECISION_MAX",
    "UpgradeKraftVersion",
    "default_directory",
    "ensure_bounded",
    "repeated",
    "too_large",
]

R = TypeVar("R")
H = TypeVar("H", bound=Hashable)

# The records of one decision, with Apache Kafka's limit: a decision is one batch, and a batch must fit into memory and
# into one fetch of a follower.
RECORDS_PER_DECISION_MAX = 10_000
# The bytes of one decision. The journal treats a batch with a much larger size as corrupt, so a larger batch could not
# be read again. A configuration value may be as long as a request; fencing a broker takes about 50 bytes per partition.
DECISION_BYTES_MAX = 32 << 20


class UpgradeKraftVersion(Protocol):
    """Raises the level of `kraft.version`; with `validate_only` it only checks, and the answer is there at once."""

    def __call__(self, level: int, *, validate_only: bool) -> Deferred[None]: ...


class KraftVersion(NamedTuple):
    """The feature `kraft.version`, which the quorum keeps in its own control records."""

    level: Callable[[], int]
    upgrade: UpgradeKraftVersion


class DecisionContext(NamedTuple):
    image: MetadataImage
    config: BrokerConfig
    now_ms: int
    random: Random
    # The offset of the decision's first record; the epoch of a broker is the offset of its registration.
    next_offset: int
    liveness: Liveness
    # Monotonic milliseconds for sessions; `now_ms` is wall-clock time.
    steady_ms: int = 0
    # True for a topic whose configuration the caller may see.
    may_describe_configs: Callable[[str], bool] = lambda _name: True
    # The version of the request; some error codes depend on it.
    api_version: int = 32767
    # Called before partitions are created or deleted, with their number; raises KafkaError over the quota (KIP-599).
    take_mutations: Callable[[int], object] = lambda _partitions: None
    # The connection that the request came on; empty for requests of this node.
    connection_id: str = ""
    # None in a controller without a quorum below it.
    kraft_version: KraftVersion | None = None
    # The client that sent the request; None for requests of this node.
    caller: Caller | None = None


class Decision(BaseDecision[R]):
    """A decision of the controller may be one portion of a large one, or wait for the quorum (`kraft.version`)."""

    __slots__ = ("after_commit", "later")

    following: Callable[[DecisionContext], Decision[R]] | None

    def __init__(
        self,
        records: Sequence[Any],
        response: R,
        *,
        following: Callable[[DecisionContext], Decision[R]] | None = None,
        later: Callable[[DecisionContext], Decision[R]] | None = None,
        after_commit: Callable[[], Deferred[R]] | None = None,
    ) -> None:
        super().__init__(records, response, following=following)
        assert later is None or records, "a portion changes something"
        # Like `following`, in a later turn of the loop: the next portion of a change that is too large for one turn.
        # Other requests are decided in between. It may never come (a new controller, a full disk).
        self.later = later
        # Runs after the commit and provides the response instead of `response`.
        self.after_commit = after_commit


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
    """The directory of a new replica on this broker (KIP-858).

    A broker with several directories chooses one and reports it later; until then the id is zero ("unassigned").
    """
    broker = image.cluster.brokers.get(broker_id)
    if broker is not None and len(broker.directories) == 1:
        return broker.directories[0]
    return Uuid.ZERO


def repeated(values: Iterable[H]) -> set[H]:
    """The values that occur more than once."""
    seen: set[H] = set()
    twice: set[H] = set()
    for value in values:
        (twice if value in seen else seen).add(value)
    return twice
