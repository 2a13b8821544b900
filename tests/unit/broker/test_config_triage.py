"""Changes of settings whose check has to wait for a worker: the answer keeps the order of the request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.broker.config_resources import altered
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError


def resource(name: str) -> Any:
    return SimpleNamespace(resource_type=4, resource_name=name)


def message_of(**fields: Any) -> Any:
    return fields["error_message"]


def test_resources_wait_for_their_checks() -> None:
    checks: dict[str, Deferred[None]] = {"1": Deferred(), "": Deferred()}
    resources = [resource(name) for name in ("1", "handled", "", "forwarded", "refused")]

    def settle(config_resource: Any) -> Any:
        if config_resource.resource_name == "refused":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "refused")
        return checks.get(config_resource.resource_name, config_resource.resource_name == "handled")

    forwarded: list[str] = []

    def ask_controller(forwarded_resources: list[Any]) -> Deferred[Any]:
        forwarded.extend(forwarded_resource.resource_name for forwarded_resource in forwarded_resources)
        return Deferred.resolved(["answer of the controller", "another one"])

    answers = altered(resources, settle, ask_controller, message_of)
    checks["1"].fail(KafkaError(ErrorCode.INVALID_REQUEST, "no key"))
    assert not answers.done
    checks[""].resolve(None)
    assert forwarded == ["", "forwarded"]
    assert answers.result() == ["no key", None, "answer of the controller", "another one", "refused"]


def test_a_defect_in_a_check_fails_the_request() -> None:
    failed: Deferred[None] = Deferred.failed(ValueError("a defect"))
    answers = altered([resource("1")], lambda _: failed, lambda _: Deferred(), message_of)
    assert isinstance(answers.error, ValueError)
