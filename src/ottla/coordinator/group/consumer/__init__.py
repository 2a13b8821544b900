"""The consumer group protocol (KIP-848): the coordinator assigns, members converge one heartbeat at a time."""

from __future__ import annotations

__all__: list[str] = []
