"""The built-in predicates, for `predicates.<name>.type`, `transforms.<x>.predicate` and `.negate`."""

from __future__ import annotations

from ottla.connect.plugins.predicates.records import HasHeaderKey, RecordIsTombstone, TopicNameMatches

__all__ = ["HasHeaderKey", "RecordIsTombstone", "TopicNameMatches"]
