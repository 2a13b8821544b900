"""When the active segment rolls: its size, its age, its indexes.

The check has half a dozen parts, and its result is nearly always no. So every segment has `RollBounds`: within them an
append needs three comparisons. Beyond them `must_roll` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.model.config import LogConfig
    from ottla.storage.segment import Segment

__all__ = ["RollBounds", "must_roll"]

RELATIVE_OFFSET_MAX = (1 << 31) - 1


class RollBounds:
    """Limits within which a segment need not roll. They are valid for one segment and one configuration."""

    __slots__ = ("config", "next_offset_max", "segment", "size_max", "timestamp_max")

    def __init__(self, segment: Segment, config: LogConfig, *, jitter_ms: int) -> None:
        self.segment = segment
        self.config = config
        self.size_max = min(
            config.segment_bytes,
            segment.size_without_full_index(
                index_interval_bytes=config.index_interval_bytes, bytes_max=config.segment_index_bytes
            ),
        )
        first = segment.first_timestamp
        # Without timestamps the age depends on the clock, which is not read here, so that every append is checked.
        self.timestamp_max = first + _age_max_ms(config) - jitter_ms if first >= 0 else -2
        self.next_offset_max = segment.base_offset + RELATIVE_OFFSET_MAX


def must_roll(
    segment: Segment,
    config: LogConfig,
    *,
    added_bytes: int,
    max_timestamp: int,
    next_offset: int,
    now_ms: int,
    jitter_ms: int,
) -> bool:
    """True if an append of this size, up to this timestamp and offset, needs a new segment."""
    if segment.size > config.segment_bytes - added_bytes or not segment.holds_relative(next_offset - 1):
        return True
    if segment.size == 0:
        return False
    first = segment.first_timestamp
    age_ms = max_timestamp - first if first >= 0 else now_ms - segment.created_ms
    return age_ms > _age_max_ms(config) - jitter_ms or segment.is_index_full(
        index_interval_bytes=config.index_interval_bytes, bytes_max=config.segment_index_bytes
    )


def _age_max_ms(config: LogConfig) -> int:
    if config.max_compaction_lag_ms < config.segment_ms and config.compacts:
        # The active segment is never cleaned, so it has to be closed in time for the cleaner (KIP-354).
        return config.max_compaction_lag_ms
    return config.segment_ms
