"""State that lives in a compacted topic, and the machines that decide about it: groups and their offsets."""

from __future__ import annotations

__all__: list[str] = []
