"""Fetches a snapshot in chunks when the leader has deleted the entries that a replica lacks (KIP-630)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.model.deferred import Deferred
from ottla.quorum import events as e
from ottla.quorum import exchange as x
from ottla.quorum.errors import MetadataLogDamagedError
from ottla.quorum.voters import ReplicaKey

if TYPE_CHECKING:
    from ottla.quorum.snapshots import Snapshot
    from ottla.quorum.voter_log import VoterLog
    from ottla.wire.peers import Endpoint, Peers

__all__ = ["SnapshotFetch"]

logger = logging.getLogger("ottla.quorum.snapshot_fetch")

PURPOSE = "metadata"


class SnapshotFetch:
    """Fetches one snapshot. Reports every chunk, and finally `SnapshotFetched` or `FetchFailed`."""

    def __init__(
        self,
        *,
        peers: Peers,
        log: VoterLog,
        endpoint: Endpoint,
        effect: e.FetchSnapshot,
        cluster_id: str,
        bytes_max: int,
        timeout_ms: int,
        tell: Callable[[e.Event], object],
    ) -> None:
        self._peers = peers
        self._log = log
        self._endpoint = endpoint
        self._effect = effect
        self._cluster_id = cluster_id
        self._bytes_max = bytes_max
        self._timeout_ms = timeout_ms
        self._tell = tell
        self._position = 0
        self._is_checking = False
        self._is_closed = False

    def start(self) -> None:
        try:
            self._log.begin_snapshot(self._effect.snapshot)
        except OSError as error:
            # The disk has no room, or the process no descriptors. The next fetch tries again after a pause.
            self._give_up(str(error))
            return
        self._ask()

    def close(self) -> None:
        self._is_closed = True

    def goes_on_as(self, effect: e.FetchSnapshot) -> bool:
        """True if a worker checks a snapshot of the same leader: it is not fetched again, and reports the new id.

        The check may take longer than the fetch timeout, after which the leader is asked again.
        """
        if self._is_closed or not self._is_checking or effect.epoch != self._effect.epoch:
            return False
        self._effect = effect
        return True

    def _ask(self) -> None:
        request = x.snapshot_request(
            replica=ReplicaKey(self._log.node_id, self._log.directory_id),
            cluster_id=self._cluster_id,
            epoch=self._effect.epoch,
            snapshot=self._effect.snapshot,
            position=self._position,
            max_bytes=self._bytes_max,
        )
        sent = self._peers.send(self._endpoint, request, purpose=PURPOSE, timeout_ms=self._timeout_ms)
        sent.when_done(self._on_answer)

    @property
    def _is_stale(self) -> bool:
        """True if the role, and with it the leader, has changed since the fetch began."""
        return self._log.leader_epoch != self._effect.epoch or self._log.is_leading

    def _on_answer(self, answer: Deferred[Any]) -> None:
        if self._is_closed:
            return
        piece = None
        if answer.error is None and not self._is_stale:
            response = answer.result()
            piece = None if response.error_code else x.only_partition(response)
        if piece is None or piece.error_code or piece.position != self._position or not piece.unaligned_records:
            self._give_up("the leader has no such snapshot, or lost leadership")
            return
        try:
            self._position = self._log.append_snapshot(memoryview(piece.unaligned_records))
        except OSError as error:
            self._give_up(str(error))
            return
        self._tell(e.SnapshotProgressed())
        if self._is_closed:
            return
        if self._position >= piece.size:
            self._is_checking = True
            self._log.check_snapshot().when_done(self._on_checked)
        else:
            self._ask()

    def _on_checked(self, checked: Deferred[Snapshot]) -> None:
        if self._is_closed:
            return
        if self._is_stale:
            self._give_up("the leader has changed")
            return
        try:
            self._log.install_snapshot(checked.result())
        except (MetadataLogDamagedError, OSError) as error:
            self._give_up(str(error))
            return
        self._is_closed = True
        self._tell(e.SnapshotFetched(fetch_id=self._effect.fetch_id))

    def _give_up(self, problem: str) -> None:
        self._is_closed = True
        logger.warning("cannot fetch snapshot %s: %s", self._effect.snapshot.file_name, problem)
        self._log.abandon_snapshot()
        self._tell(e.FetchFailed(fetch_id=self._effect.fetch_id))
