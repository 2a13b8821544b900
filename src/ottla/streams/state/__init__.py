"""Stores of tasks, and their specifications. See README.md."""

from ottla.streams.state.specification import StoreKind, Stores, StoreSpecification

__all__ = ["StoreKind", "StoreSpecification", "Stores"]
