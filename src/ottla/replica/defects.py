"""Defects in the handling of one partition.

A request concerns many partitions, and its appends, reads and deletions in other partitions remain valid. So a defect
is logged with its traceback, and becomes the error of its own partition only.
"""

from __future__ import annotations

import logging

from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["error_of"]

logger = logging.getLogger("ottla.replica.defects")


def error_of(raised: BaseException, work: str, place: object) -> KafkaError:
    """The error for the client: the raised one, if it is a protocol error."""
    if isinstance(raised, KafkaError):
        return raised
    logger.error("%s failed in %s", work, place, exc_info=raised)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
