"""Committed offsets: the table, and what is decided about it."""

from __future__ import annotations

__all__: list[str] = []
