"""Stores of tasks, and their specifications. See README.md."""

from ottla.streams.state.specification import StoreKind, Stores, StoreSpecification, StoreType

__all__ = ["StoreKind", "StoreSpecification", "StoreType", "Stores"]
