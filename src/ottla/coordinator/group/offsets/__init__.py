"""Committed offsets: their table, and the decisions about it."""

from __future__ import annotations

__all__: list[str] = []
