"""The choice of the worker that answers a request.

The leader of the group decides changes, and the worker that runs a task answers for its progress. A request
that arrives at another worker raises `Elsewhere` with the right worker's address, and REST forwards it. A standalone
worker answers every request itself.
"""

from __future__ import annotations

from ottla.connect.control.distributed.group import Membership
from ottla.connect.control.request_errors import Elsewhere, conflict

__all__ = ["Routing"]


class Routing:
    def __init__(self, url: str, *, is_distributed: bool) -> None:
        self._url = url
        self._is_distributed = is_distributed
        # The latest generation of the group; None while this worker is not a member.
        self.membership: Membership | None = None

    def require_leader(self) -> None:
        """Raises Elsewhere unless this worker leads the group."""
        if not self._is_distributed:
            return
        if self.membership is None:
            raise Elsewhere(None)
        if not self.membership.is_leader:
            raise Elsewhere(self.membership.leader_url)

    def require_owner(self, key: str, *, is_here: bool) -> None:
        """Raises Elsewhere unless this worker runs the connector (`name`) or task (`task:name-0`).

        Only the leader has the addresses of the owners, so other workers forward to the leader.
        """
        if is_here or not self._is_distributed:
            return
        self.require_leader()
        assert self.membership is not None
        url = self.membership.owners.get(key)
        if url is None or url == self._url:
            raise conflict("A rebalance of the workers is in progress; try again soon.")
        raise Elsewhere(url)
