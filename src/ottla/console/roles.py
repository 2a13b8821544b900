"""What users of the console may do with it. The cluster's own rights decide in addition."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.console.masking import MaskRule

__all__ = ["OPERATOR", "READER", "Role"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    name: str
    # Pages and lists.
    can_read: bool = True
    # Keys, values and headers of records.
    can_read_messages: bool = True
    can_write: bool = False
    # What is hidden of records.
    masks: tuple[MaskRule, ...] = ()


OPERATOR = Role(name="operator", can_write=True)
READER = Role(name="reader")
