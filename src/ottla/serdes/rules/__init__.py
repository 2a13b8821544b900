"""Rules of data contracts, carried out by serializers: conditions, transformations, encryption, migrations.

A schema in a registry may have a rule set. `engine` runs its rules in order; the other modules are rule types and
actions. Nothing of CEL or JSONata is imported before a rule needs it.
"""

from __future__ import annotations

from ottla.serdes.rules.contracts import Field, FieldKind, Rule, RuleCall, RuleFailed, RuleMode, RulePhase
from ottla.serdes.rules.dead_letters import DeadLetter
from ottla.serdes.rules.engine import RuleEngine

__all__ = ["DeadLetter", "Field", "FieldKind", "Rule", "RuleCall", "RuleEngine", "RuleFailed", "RuleMode", "RulePhase"]
