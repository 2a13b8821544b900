"""Transactions: everything that lives in `__transaction_state`."""

from __future__ import annotations

__all__ = ["TRANSACTION_TOPIC"]

TRANSACTION_TOPIC = "__transaction_state"
