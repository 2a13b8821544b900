"""What is told of a partition in which something of ours is wrong.

A request names many partitions, and what was appended, read or deleted in the others stands: each is answered for
itself, whatever becomes of one. So a defect is logged with its traceback, and is the error of its partition alone.
"""

from __future__ import annotations

import logging

from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["error_of"]

logger = logging.getLogger("ottla.replica.defects")


def error_of(raised: BaseException, work: str, where: object) -> KafkaError:
    """What a client is told: what was raised, if it is meant for clients."""
    if isinstance(raised, KafkaError):
        return raised
    logger.error("%s failed in %s", work, where, exc_info=raised)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
