"""The states of a transactional id, and which may follow which: the one table of the transaction's machine.

        Empty ----> Ongoing ----> PrepareCommit ----> CompleteCommit
                       |                                    |
                       +-------> PrepareAbort -----> CompleteAbort ----> Empty (a new instance), Ongoing, or Dead

A prepared transaction is decided: whatever happens, its markers are written and it completes. PrepareEpochFence lies
between Ongoing and PrepareAbort when the coordinator itself aborts; it is passed through within one decision and never
written. Dead is an id that has expired: its tombstone. With the second version of transactions (KIP-890) a producer
may abort where nothing was written, hence PrepareAbort after Empty and after both ends.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["EXPIRABLE", "PREPARED", "STATUS_BY_NAME", "TRANSITIONS", "ImpossibleTransition", "TransactionStatus"]


class TransactionStatus(IntEnum):
    """The numbers are written to the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that administrators see."""
        return _LABELS[self]


_S = TransactionStatus

_LABELS = {status: "".join(word.capitalize() for word in status.name.split("_")) for status in TransactionStatus}
STATUS_BY_NAME = {label: status for status, label in _LABELS.items()}

_AFTER_THE_END = frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD})

TRANSITIONS: dict[TransactionStatus, frozenset[TransactionStatus]] = {
    _S.EMPTY: _AFTER_THE_END,
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: _AFTER_THE_END,
    _S.COMPLETE_ABORT: _AFTER_THE_END,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: frozenset(),
}

# Decided, and not yet finished: markers are on their way.
PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
# Nothing is open, so that the id may be forgotten.
EXPIRABLE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})


class ImpossibleTransition(AssertionError):
    """A programmer's error; the message tells how it came to it."""
