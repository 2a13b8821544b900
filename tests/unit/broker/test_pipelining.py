"""The requests that may be started behind an unanswered one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import CONTROLLER_HANDLERS, HANDLERS, NO_API, HandlerSpec
from ottla.broker.dispatch import Dispatcher
from ottla.wire.api import ApiKey


@pytest.mark.parametrize("handlers", [HANDLERS, CONTROLLER_HANDLERS])
def test_the_relation_is_an_equivalence(handlers: dict[int, HandlerSpec]) -> None:
    """The machine of a connection looks at the newest unanswered request alone, which is enough only then."""
    for api_key, spec in handlers.items():
        for other in spec.starts_behind:
            assert api_key in spec.starts_behind
            assert handlers[other].starts_behind == spec.starts_behind


def test_the_dispatcher_answers_for_its_listener() -> None:
    clock = SimpleNamespace(monotonic=lambda: 0.0, now_ms=lambda: 0)
    broker: Any = SimpleNamespace(world=SimpleNamespace(clock=clock))
    dispatcher = Dispatcher(broker)
    assert dispatcher.starts_behind(ApiKey.PRODUCE) == {ApiKey.PRODUCE}
    assert dispatcher.starts_behind(ApiKey.OFFSET_COMMIT) == {ApiKey.OFFSET_COMMIT}
    assert dispatcher.starts_behind(ApiKey.LIST_OFFSETS) == NO_API
    assert dispatcher.starts_behind(ApiKey.ENVELOPE) == NO_API, "only a controller serves it"
    assert dispatcher.starts_behind(12345) == NO_API
    assert Dispatcher(broker, CONTROLLER_HANDLERS).starts_behind(ApiKey.ENVELOPE) == {ApiKey.ENVELOPE}
