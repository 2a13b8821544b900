"""The handling of data loss: records that a query should read and that do not exist any more.

There are three kinds of loss. The log starts after the query's position (retention, or deleted records). The log ends
before the position (election of a leader without all records). The topic was deleted, and perhaps created again. Gaps
between offsets are no loss: compaction, transaction markers and aborted records leave them.
"""

from __future__ import annotations

import logging

from ottla.spark.options import SourceOptions

__all__ = ["DataLost", "on_loss"]

log = logging.getLogger("ottla.spark")


class DataLost(Exception):
    """Raised with `onDataLoss=fail`. The query can be started again with another policy."""


def on_loss(options: SourceOptions, description: str) -> None:
    """Raises DataLost or logs a warning, by the policy."""
    if options.on_data_loss == "fail":
        raise DataLost(
            f"{description} Set option onDataLoss to 'earliest' to continue with the remaining records, "
            "or to 'report' to also count the loss in the query's progress."
        )
    log.warning("%s The query continues with the remaining records.", description)
