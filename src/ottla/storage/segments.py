"""The segments of one log, ordered by base offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from ottla.storage.segment import Segment

__all__ = ["Segments"]


class Segments:
    """The segments of a log, at least one. `active` is the last segment."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        assert self._segments, "a log has at least one segment"
        self._bases = [segment.base_offset for segment in self._segments]
        self.active = self._segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def number_of(self, offset: int) -> int:
        """The index of the segment that contains the offset, or would."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that contains the offset, or would, and all later segments."""
        return self._segments[self.number_of(offset) :]

    def after(self, segment: Segment) -> Segment | None:
        number = bisect_right(self._bases, segment.base_offset)
        return self._segments[number] if number < len(self._segments) else None

    def add(self, segment: Segment) -> None:
        number = bisect_left(self._bases, segment.base_offset)
        assert number == len(self._bases) or self._bases[number] != segment.base_offset, "two segments at one offset"
        self._segments.insert(number, segment)
        self._bases.insert(number, segment.base_offset)
        self.active = self._segments[-1]

    def remove(self, segments: Iterable[Segment]) -> None:
        removed = {segment.base_offset for segment in segments}
        self._segments = [segment for segment in self._segments if segment.base_offset not in removed]
        assert self._segments, "a log has at least one segment"
        self._bases = [segment.base_offset for segment in self._segments]
        self.active = self._segments[-1]

    def replace_all(self, segment: Segment) -> None:
        self._segments = [segment]
        self._bases = [segment.base_offset]
        self.active = segment

    def replace(self, old: Iterable[Segment], new: Iterable[Segment]) -> None:
        """Replaces segments by new segments in one step."""
        replaced = {segment.base_offset for segment in old}
        kept = [segment for segment in self._segments if segment.base_offset not in replaced]
        self._segments = sorted([*kept, *new], key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]
        assert self._segments[-1] is self.active, "the active segment is never replaced"
