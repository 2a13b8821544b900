"""The table of requests that may be started behind an unanswered one."""

from __future__ import annotations

from ottla.broker.apis import CONTROLLER_HANDLERS, HANDLERS
from ottla.broker.pipelining import STARTS_BEHIND


def test_the_relation_is_an_equivalence() -> None:
    """The machine looks at the newest unanswered request alone, which is enough only then."""
    for api_key, behind in STARTS_BEHIND.items():
        assert api_key in behind
        for other in behind:
            assert STARTS_BEHIND[other] == behind


def test_only_apis_that_are_served_are_named() -> None:
    assert STARTS_BEHIND.keys() <= HANDLERS.keys() | CONTROLLER_HANDLERS.keys()
