"""SaslHandshake (key 17), versions 0 to 1: the mechanism by which a client will authenticate itself.

- 1: what follows are SaslAuthenticate requests, not tokens without a frame

Listeners have no SASL, so the answer is that nobody is asked to authenticate; the connection stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]


def handle(
    request: SaslHandshakeRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> SaslHandshakeResponse:
    raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
