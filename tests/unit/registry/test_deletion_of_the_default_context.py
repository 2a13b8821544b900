"""The default context stays, and the settings of the whole registry with it: they need another right."""

from __future__ import annotations

from typing import Any

from ottla.registry.core.deletion import decide_delete_context
from ottla.registry.core.registry import Registry
from ottla.registry.core.settings import decide_config, decide_mode


def test_the_settings_of_the_registry_stay() -> None:
    registry = Registry()
    decisions: list[Any] = [
        decide_config(registry.state, None, {"compatibility": "FULL"}),
        decide_mode(registry.state, None, "READONLY", is_forced=False),
    ]
    for records, _ in decisions:
        for record in records:
            registry.state.replay(record)
    for record in decide_delete_context(registry.state, ".")[0]:
        registry.state.replay(record)
    assert registry.config(None, inherits=False)["compatibilityLevel"] == "FULL"
    assert registry.mode(None, inherits=False) == "READONLY"
