"""The login of a client over SASL (KIP-43, KIP-152), after the versions are known and before the first request.

The settings are those of Kafka's clients: `security.protocol`, `sasl.mechanism` and `sasl.jaas.config`. The names of
librdkafka, `sasl.username` and `sasl.password`, are understood as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import AuthenticationFailed, ClientError
from ottla.model.errors import ErrorCode
from ottla.sasl.exchange import ClientExchange, SaslError
from ottla.sasl.jaas import JaasError, parse_jaas
from ottla.sasl.plain import PlainClient
from ottla.sasl.scram import MECHANISMS as SCRAM_MECHANISMS
from ottla.sasl.scram import ScramClient
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from ottla.client.connection import Connection

__all__ = ["Login", "log_in", "login_of"]

AVAILABLE = ("PLAIN", *SCRAM_MECHANISMS)
# Version 1 puts the tokens into SaslAuthenticate requests.
_HANDSHAKE_VERSION = 1


class Login(NamedTuple):
    mechanism: str
    user: str
    password: str

    def __repr__(self) -> str:
        """Without the password."""
        return f"Login(mechanism={self.mechanism!r}, user={self.user!r})"

    def exchange(self) -> ClientExchange:
        if self.mechanism in SCRAM_MECHANISMS:
            return ScramClient(self.mechanism, self.user, self.password)
        return PlainClient(self.user, self.password)


def login_of(properties: Mapping[str, str]) -> Login:
    """The login of a properties file; raises ClientError with what is missing or not available."""
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in AVAILABLE:
        raise ClientError(f"sasl.mechanism={mechanism} is not available; use one of {', '.join(AVAILABLE)}.")
    user, password = properties.get("sasl.username"), properties.get("sasl.password")
    jaas = properties.get("sasl.jaas.config")
    if jaas is not None:
        try:
            options = parse_jaas(jaas)[0].options
        except JaasError as error:
            raise ClientError(f"sasl.jaas.config cannot be read. {error}") from None
        user, password = options.get("username"), options.get("password")
    if not user or password is None:
        raise ClientError(
            f"The login with {mechanism} needs a user and a password: set sasl.jaas.config with username=... and "
            "password=..., or sasl.username and sasl.password."
        )
    return Login(mechanism, user, password)


async def log_in(connection: Connection, login: Login, *, timeout_ms: int) -> None:
    """Raises AuthenticationFailed if the node refuses the login, or cannot prove itself."""
    handshake = SaslHandshakeRequest(mechanism=login.mechanism)
    shaken = await connection.ask(handshake, timeout_ms=timeout_ms, version_max=_HANDSHAKE_VERSION)
    if shaken.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(shaken.mechanisms) or "none"
        raise AuthenticationFailed(
            f"{connection.endpoint} does not offer the mechanism {login.mechanism}; it offers {offered}."
        )
    if shaken.error_code:
        raise AuthenticationFailed(
            f"{connection.endpoint} expects no login; set security.protocol=PLAINTEXT, or use its SASL listener."
        )
    exchange = login.exchange()
    token: bytes | None = exchange.begin()
    while token is not None:
        answer = await connection.ask(SaslAuthenticateRequest(auth_bytes=token), timeout_ms=timeout_ms)
        if answer.error_code:
            reason = answer.error_message or ErrorCode(answer.error_code).name
            raise AuthenticationFailed(
                f"{connection.endpoint} refused the login of {login.user} with {login.mechanism}: {reason}"
            )
        try:
            # The keys of SCRAM take milliseconds to derive.
            token = await asyncio.to_thread(exchange.evaluate, bytes(answer.auth_bytes))
        except SaslError as error:
            raise AuthenticationFailed(f"{connection.endpoint}: {error}") from None
    if not exchange.is_complete:
        raise AuthenticationFailed(f"{connection.endpoint} ended the login too early.")
