"""The node as the handlers of a controller's listener see it.

They are the same modules that serve a broker's listener, but what is asked of a controller must not be sent on to
another one: there `broker.controller` is the controller of this process, and when that is not the active one, the
answer is NOT_CONTROLLER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ottla.broker.apis import CONTROLLER_HANDLERS
from ottla.broker.dispatch import Dispatcher

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.metadata.controller import Controller

__all__ = ["controller_dispatcher"]


def controller_dispatcher(broker: Broker) -> Dispatcher:
    """Answers what comes to a controller's listener, and what comes inside an Envelope."""
    dispatcher = Dispatcher(cast("Broker", _ControllerSide(broker)), CONTROLLER_HANDLERS)
    broker.controller_dispatcher = dispatcher
    return dispatcher


class _ControllerSide:
    """Everything but the controller is the broker's own."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def controller(self) -> Controller:
        assert self._broker.local_controller is not None, "only a controller has this listener"
        return self._broker.local_controller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)
