"""Groups of the classic protocol: members elect a leader among them, and the leader assigns."""

from __future__ import annotations

__all__: list[str] = []
