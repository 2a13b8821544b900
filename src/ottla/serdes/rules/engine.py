"""Runs the rules of a schema in order, and the actions that follow them.

A write runs the rules from the first to the last. A read runs them from the last to the first, so that it undoes the
rules of the write in the opposite order. A failed rule without another action stops the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import RegistryClient, SchemaText
from ottla.serdes.rules.contracts import Rule, RuleCall, RuleFailed, RuleMode, RulePhase, kept_recursion_limit, rules_of
from ottla.serdes.rules.dead_letters import RULE_NAME, DeadLetters

__all__ = ["Executor", "RuleEngine"]

_RULE_SETS_MAX = 1_000
# Returns whether a condition holds, or the new value of a transformation.
Executor = Callable[[Rule, RuleCall, Any], Any]


class RuleEngine:
    """The rules of one serializer. `rule.executors` may hold functions for further types of rules."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        executors = config.get("rule.executors") or {}
        if not isinstance(executors, Mapping) or not all(callable(executor) for executor in executors.values()):
            raise ValueError("rule.executors is a mapping from types of rules to functions of rule, call and value.")
        self._executors: dict[str, Executor] = {str(name).upper(): executor for name, executor in executors.items()}
        self._dead_letters = DeadLetters(config)
        # Parsed rules by the identity of their rule set. The rule set is kept, so that its identity is not used again.
        self._parsed: dict[tuple[int, RulePhase], tuple[object, list[Rule]]] = {}

    def run(self, phase: RulePhase, client: RegistryClient, call: RuleCall, value: Any) -> Any:
        """The value after the rules. Raises SerializationError if one of them stops the record."""
        rules = self._rules(call, phase)
        if not rules or value is None:
            return value
        backwards = call.mode in (RuleMode.READ, RuleMode.DOWNGRADE)
        order = range(len(rules) - 1, -1, -1) if backwards else range(len(rules))
        replayed = _replayed_rule(call)
        for index in order:
            rule = rules[index]
            if rule.applies_to(call.mode) and rule.name != replayed and not _is_repeated(rule, rules[:index]):
                value = self._apply(rule, client, call, value)
        return value

    def encrypts(self, schema: SchemaText) -> bool:
        """True if the schema has an encrypting rule."""
        return bool(schema.rule_set and self._dead_letters.encrypting(schema))

    def _rules(self, call: RuleCall, phase: RulePhase) -> list[Rule]:
        cache_key = (id(call.schema.rule_set), phase)
        parsed = self._parsed.get(cache_key)
        if parsed is None:
            if len(self._parsed) >= _RULE_SETS_MAX:
                self._parsed.clear()
            parsed = self._parsed[cache_key] = (call.schema.rule_set, rules_of(call.schema, phase))
        return parsed[1]

    def _apply(self, rule: Rule, client: RegistryClient, call: RuleCall, value: Any) -> Any:
        try:
            result = self._executor(rule.type, client)(rule, call, value)
            if rule.is_condition:
                if not result:
                    raise RuleFailed(rule.failure)
                result = value
            elif result is None:
                raise RuleFailed(f"the rule {rule.name} has no result")
        except SerializationError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a rule raises, its action decides
            self._act(rule, call, error)
            return value
        self._act(rule, call, None)
        return result

    def _executor(self, kind: str, client: RegistryClient) -> Executor:
        executor = self._executors.get(kind)
        if executor is None:
            with kept_recursion_limit():
                executor = self._executors[kind] = _new_executor(kind, client, self._config)
        return executor

    def _act(self, rule: Rule, call: RuleCall, error: Exception | None) -> None:
        action = rule.action(call.mode, succeeded=error is None)
        if action == "NONE":
            return
        reason = f"the rule {rule.name} stops it" if error is None else f"the rule {rule.name} failed: {error}"
        if action == "DLQ":
            reason += f"; {self._dead_letters.send(rule, call, error)}"
        elif action != "ERROR":
            reason += f"; the action {action} is unknown"
        raise SerializationError(f"{reason}.", topic=call.topic, is_key=call.is_key) from error


def _new_executor(kind: str, client: RegistryClient, config: Mapping[str, Any]) -> Executor:
    """The executor of a type of rules. Imports its libraries."""
    if kind in ("CEL", "CEL_FIELD"):
        from ottla.serdes.rules.cel import cel_executors

        return cel_executors()[kind]
    if kind == "JSONATA":
        from ottla.serdes.rules.jsonata import jsonata_executor

        return jsonata_executor()
    if kind in ("ENCRYPT", "ENCRYPT_PAYLOAD"):
        from ottla.serdes.rules.encryption import EncryptionRules

        rules = EncryptionRules(client, config)
        return rules.encrypt_fields if kind == "ENCRYPT" else rules.encrypt_payload
    raise RuleFailed(f"the type {kind} is not supported; rule.executors can add it")


def _replayed_rule(call: RuleCall) -> str | None:
    """The rule that sent the record to a dead-letter topic. It is skipped, so that it does not fail again."""
    rule_name = None
    for name, content in call.headers:
        if name == RULE_NAME:
            rule_name = None if content is None else content.decode(errors="replace")
    return rule_name


def _is_repeated(rule: Rule, earlier: list[Rule]) -> bool:
    """True if an earlier rule has the same transformation of the same fields: a field is not encrypted twice."""
    if not rule.tags or rule.is_condition:
        return False
    same = (rule.type, rule.mode, rule.tags)
    return any(
        not previous.is_condition and (previous.type, previous.mode, previous.tags) == same for previous in earlier
    )
