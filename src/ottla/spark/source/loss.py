"""Records that a query was promised and that are not there any more, and what is done about it.

Only three things are a loss: the log begins behind where the query stands (retention, or somebody deleted records), it
ends before that (somebody became leader who had not all of it), and the topic is another one than it was (deleted, and
perhaps made again). Gaps between offsets are none: compaction, markers of transactions and aborted records leave them.
"""

from __future__ import annotations

import logging

from ottla.spark.options import SourceOptions

__all__ = ["DataLost", "on_loss"]

log = logging.getLogger("ottla.spark")


class DataLost(Exception):
    """Raised under `onDataLoss=fail`; the query can be started again under another policy."""


def on_loss(options: SourceOptions, what: str) -> None:
    """Raises where a loss must not happen, and otherwise says that it did."""
    if options.on_data_loss == "fail":
        raise DataLost(
            f"{what} Set option onDataLoss to 'earliest' to go on with what is there, "
            "or to 'report' to have it also counted in the query's progress."
        )
    log.warning("%s The query goes on with what is there.", what)
