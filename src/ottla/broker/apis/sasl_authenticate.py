"""SaslAuthenticate (key 36), versions 0 to 2: one step of an authentication (KIP-152).

- 1: for how long it holds (KIP-368); 2: flexible

Listeners have no SASL, so there is no exchange that this could be a step of; the connection stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    request: SaslAuthenticateRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> SaslAuthenticateResponse:
    raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "This listener asks nobody to authenticate.")


def error_response(
    request: SaslAuthenticateRequest,  # noqa: ARG001
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> SaslAuthenticateResponse:
    """Unlike the one that fits every API, it does not send the client's own secret back."""
    return SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
