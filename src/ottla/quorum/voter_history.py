"""The sets of voters and the `kraft.version` in the log, by offset (KIP-853).

A set takes effect when its entry is appended, committed or not, and ceases to when the entry is truncated.
"""

from __future__ import annotations

from ottla.quorum.voters import VoterSet

__all__ = ["VoterHistory"]


class VoterHistory:
    """Both lists are sorted by offset. If the log has no voters, the configuration names them."""

    __slots__ = ("_kraft_versions", "_voters")

    def __init__(self) -> None:
        self._voters: list[tuple[int, VoterSet]] = []
        self._kraft_versions: list[tuple[int, int]] = []

    @property
    def kraft_version(self) -> int:
        return self._kraft_versions[-1][1] if self._kraft_versions else 0

    @property
    def voters(self) -> VoterSet | None:
        """The newest set; None if the log has none."""
        return self._voters[-1][1] if self._voters else None

    @property
    def voters_offset(self) -> int:
        """The offset of the newest set; -1 if there is none."""
        return self._voters[-1][0] if self._voters else -1

    @property
    def former_voters(self) -> VoterSet | None:
        """The set before the newest one."""
        return self._voters[-2][1] if len(self._voters) > 1 else None

    def begin(self, offset: int, *, kraft_version: int, voters: VoterSet | None) -> None:
        """Starts from the content of a snapshot."""
        if kraft_version > 0:
            self.add_kraft_version(offset, kraft_version)
        if voters is not None:
            self.add_voters(offset, voters)

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        if self._voters and self._voters[-1][0] >= offset:
            # The entry is covered by the snapshot and read again.
            return
        self._voters.append((offset, voters))

    def add_kraft_version(self, offset: int, version: int) -> None:
        if not self._kraft_versions or self._kraft_versions[-1][0] < offset:
            self._kraft_versions.append((offset, version))

    def kraft_version_at(self, end_offset: int) -> int:
        """The `kraft.version` before the offset."""
        return next((version for offset, version in reversed(self._kraft_versions) if offset < end_offset), 0)

    def record_at(self, end_offset: int) -> bytes | None:
        """The body of the VotersRecord in effect before the offset."""
        return next((voters.encode() for offset, voters in reversed(self._voters) if offset < end_offset), None)

    def truncate_to(self, end_offset: int) -> None:
        self._voters = [entry for entry in self._voters if entry[0] < end_offset]
        self._kraft_versions = [entry for entry in self._kraft_versions if entry[0] < end_offset]

    def clear(self) -> None:
        self._voters = []
        self._kraft_versions = []
