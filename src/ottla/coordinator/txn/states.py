"""The states of a transactional id, and the table of their transitions.

        Empty ----> Ongoing ----> PrepareCommit ----> CompleteCommit
                       |                                    |
                       +-------> PrepareAbort -----> CompleteAbort ----> Empty (a new instance), Ongoing, or Dead

A prepared transaction is decided: its markers are written and it completes, in spite of all failures. PrepareEpochFence
lies between Ongoing and PrepareAbort when the coordinator aborts; one decision passes through it and never writes it.
Dead is an expired id: its tombstone. With the second version of transactions (KIP-890) a producer may abort a
transaction without partitions, hence PrepareAbort after Empty and after both Complete... states.
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

# Decided and not completed: markers are being sent.
PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
# No transaction is open, so the id may expire.
EXPIRABLE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})


class ImpossibleTransition(AssertionError):
    """A programmer's error; the message has the last transitions."""
