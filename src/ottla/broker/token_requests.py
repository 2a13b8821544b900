"""Which connections may ask for delegation tokens (KIP-48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context import ANONYMOUS
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

__all__ = ["NO_TIME", "ensure_may_ask"]

# The time fields of a response with an error.
NO_TIME = -1


def ensure_may_ask(context: RequestContext) -> None:
    """Raises KafkaError for a client that has not authenticated itself, or has done so with a token.

    A client with a token must not create another token, which would outlive the first token. A forwarded request was
    checked by the broker that the client is connected to.
    """
    connection = context.connection
    protocol = connection.listener.security_protocol
    is_authenticated = protocol != "PLAINTEXT" and not (protocol == "SSL" and connection.principal == ANONYMOUS)
    if connection.is_token_authenticated or not (is_authenticated or connection.is_forwarded):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
