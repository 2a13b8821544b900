"""Contexts: `:.name:subject` is a subject within the context `.name`; a bare subject is in the default context `.`.

Ids are unique within a context. `:.name:` alone is the context itself, as the owner of a configuration or mode.
`:.__GLOBAL:` owns the configuration and mode above all contexts.
"""

from __future__ import annotations

__all__ = [
    "DEFAULT",
    "GLOBAL",
    "canonical_subject",
    "context_of",
    "context_subject",
    "in_context",
    "matches_prefix",
    "name_in_context",
]

DEFAULT = "."
GLOBAL = ":.__GLOBAL:"
_ALL = ":*:"


def context_of(subject: str | None) -> str:
    """The name of the context, with its leading dot."""
    if subject is None or not subject.startswith(":."):
        return DEFAULT
    context, separator, _ = subject[1:].partition(":")
    return context if separator else DEFAULT


def name_in_context(subject: str) -> str:
    """The subject without its context."""
    if not subject.startswith(":."):
        return subject
    _, separator, name = subject[1:].partition(":")
    return name if separator else subject


def canonical_subject(subject: str) -> str:
    """The name under which a subject is stored: the default context is not written."""
    if not subject.startswith(":."):
        return subject
    context, separator, name = subject[1:].partition(":")
    if not separator:
        return subject
    return name if context == DEFAULT else subject


def context_subject(context: str) -> str | None:
    """The owner of a context's configuration; None, the global one, for the default context."""
    return None if context == DEFAULT else f":{context}:"


def in_context(context: str, name: str) -> str:
    return name if context == DEFAULT or name.startswith(":.") else f":{context}:{name}"


def matches_prefix(subject: str, prefix: str) -> bool:
    """Whether a subject matches the prefix of a list request; a leading `:*:` stands for all contexts."""
    if prefix.startswith(_ALL):
        bare = subject[1:].partition(":")[2] if subject.startswith(":.") else subject
        return bare.startswith(prefix[len(_ALL) :])
    if prefix.startswith(":.:"):
        return context_of(subject) == DEFAULT and subject.startswith(prefix[3:])
    if prefix.startswith(":."):
        return subject.startswith(prefix)
    return context_of(subject) == DEFAULT and subject.startswith(prefix)
