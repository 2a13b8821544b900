"""Changes of settings whose check has to wait for a worker: the answer keeps the order of the request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.broker.config_resources import Triage, answers, triage
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError


def resource(name: str) -> Any:
    return SimpleNamespace(resource_type=4, resource_name=name)


def test_resources_wait_for_their_checks() -> None:
    checks: dict[str, Deferred[None]] = {"1": Deferred(), "": Deferred()}
    resources = [resource(name) for name in ("1", "handled", "", "forwarded", "refused")]

    def settle(each: Any) -> bool | Deferred[None]:
        if each.resource_name == "refused":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "refused")
        return checks.get(each.resource_name, each.resource_name == "handled")

    outcome = triage(resources, settle)
    checks["1"].fail(KafkaError(ErrorCode.INVALID_REQUEST, "no key"))
    assert not outcome.done
    checks[""].resolve(None)
    found: Triage[Any] = outcome.result()
    assert [each.resource_name for each in found.forwarded] == ["", "forwarded"]
    decided = ["answer of the controller", "another one"]
    given: list[Any] = answers(resources, found, decided, lambda **fields: fields["error_message"])
    assert given == ["no key", None, "answer of the controller", "another one", "refused"]


def test_a_defect_in_a_check_fails_the_request() -> None:
    failed: Deferred[None] = Deferred.failed(ValueError("a defect"))
    assert isinstance(triage([resource("1")], lambda _: failed).error, ValueError)
