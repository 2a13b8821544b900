"""The active controller for a node with the controller role: in this process or over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.metadata.controller import Controller, ControllerContext, ControllerGateway
    from ottla.wire.message import Request

__all__ = ["RoutedController"]

R = TypeVar("R", bound=Message)


class RoutedController:
    """Asks the local controller while it is active, and the remote one otherwise.

    A request that the local controller could not finish, because it lost leadership, is asked of the remote controller.
    A request from a controller's listener is only asked of the local controller (`ControllerContext.is_local_only`).
    """

    def __init__(self, local: Controller, remote: ControllerGateway) -> None:
        self._local = local
        self._remote = remote

    def ask(self, request: Request[R], context: ControllerContext | None = None) -> Deferred[R]:
        if context is not None and context.is_local_only:
            return self._local.ask(request, context)
        if not self._local.is_active:
            return self._remote.ask(request, context)
        answered: Deferred[R] = Deferred()

        def on_local(answer: Deferred[R]) -> None:
            error = answer.error
            if isinstance(error, KafkaError) and error.code is ErrorCode.NOT_CONTROLLER:
                self._remote.ask(request, context).when_done(pass_on)
            else:
                pass_on(answer)

        def pass_on(answer: Deferred[R]) -> None:
            if answer.error is None:
                answered.resolve(answer.result())
            else:
                answered.fail(answer.error)

        self._local.ask(request, context).when_done(on_local)
        return answered
