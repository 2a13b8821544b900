"""The login of a client over SASL (KIP-43, KIP-152), after the versions are known and before the first request.

The settings are those of Kafka's clients: `security.protocol`, `sasl.mechanism` and `sasl.jaas.config`. The names of
librdkafka, `sasl.username` and `sasl.password`, are understood as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.client.errors import AuthenticationFailed, ClientError
from ottla.model.errors import ErrorCode
from ottla.sasl.delegation import EXTENSION
from ottla.sasl.exchange import ClientExchange, SaslError
from ottla.sasl.jaas import JaasError, parse_jaas
from ottla.sasl.plain import PlainClient
from ottla.sasl.scram import MECHANISMS as SCRAM_MECHANISMS
from ottla.sasl.scram import ScramClient
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from ottla.client.connection import Connection

__all__ = ["Login", "PasswordLogin", "jaas_options", "log_in", "login_of", "prove_identity"]

OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
AVAILABLE = ("PLAIN", *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)
# Version 1 puts the tokens into SaslAuthenticate requests.
_HANDSHAKE_VERSION = 1


class Login(Protocol):
    """The identity of a client, and its proof. Used for every connection, and again before a login expires."""

    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str:
        """For error messages."""

    async def exchange(self, host: str) -> ClientExchange:
        """The client's end of an exchange with a node. Raises AuthenticationFailed without a credential."""


class PasswordLogin(NamedTuple):
    mechanism: str
    user: str
    password: str
    # True if the user is the id of a delegation token, and the password its HMAC in base64 (KIP-48).
    is_token: bool = False

    def __repr__(self) -> str:
        """Without the password."""
        return f"PasswordLogin(mechanism={self.mechanism!r}, user={self.user!r})"

    async def exchange(self, host: str) -> ClientExchange:  # noqa: ARG002
        if self.mechanism in SCRAM_MECHANISMS:
            extensions = EXTENSION if self.is_token else None
            return ScramClient(self.mechanism, self.user, self.password, extensions=extensions)
        return PlainClient(self.user, self.password)


def login_of(properties: Mapping[str, str]) -> Login:
    """The login of a properties file; raises ClientError with what is missing or not available."""
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI")).strip()
    if mechanism not in AVAILABLE:
        raise ClientError(f"sasl.mechanism={mechanism} is not available; use one of {', '.join(AVAILABLE)}.")
    options = jaas_options(properties)
    if mechanism == OAUTHBEARER:
        # Imported with the first such login: it brings HTTP along.
        from ottla.client.oauth.settings import oauth_login_of

        return oauth_login_of(properties, options or {})
    if mechanism == GSSAPI:
        from ottla.client.kerberos import kerberos_login_of

        return kerberos_login_of(properties, options or {})
    user, password = properties.get("sasl.username"), properties.get("sasl.password")
    is_token = False
    if options is not None:
        user, password = options.get("username"), options.get("password")
        is_token = options.get("tokenauth", "").lower() == "true"
    if not user or password is None:
        raise ClientError(
            f"The login with {mechanism} needs a user and a password: set sasl.jaas.config with username=... and "
            "password=..., or sasl.username and sasl.password."
        )
    if is_token and mechanism not in SCRAM_MECHANISMS:
        raise ClientError(f"A delegation token needs a mechanism of SCRAM; sasl.mechanism is {mechanism}.")
    return PasswordLogin(mechanism, user, password, is_token)


def jaas_options(properties: Mapping[str, str]) -> Mapping[str, str] | None:
    """The options of `sasl.jaas.config`. The name of the login module is not used: no class is loaded by it."""
    text = properties.get("sasl.jaas.config")
    if text is None:
        return None
    try:
        return parse_jaas(text)[0].options
    except JaasError as error:
        raise ClientError(f"sasl.jaas.config cannot be read. {error}") from None


async def log_in(connection: Connection, login: Login, *, timeout_ms: int) -> int:
    """Returns the lifetime of the login in milliseconds; 0 for a login without an end (KIP-368).

    Raises AuthenticationFailed if the node refuses the login, or cannot prove itself.
    """
    return await prove_identity(
        connection, login, await login.exchange(connection.endpoint.host), timeout_ms=timeout_ms
    )


async def prove_identity(connection: Connection, login: Login, exchange: ClientExchange, *, timeout_ms: int) -> int:
    """`log_in` with an exchange that was not begun yet."""
    handshake = SaslHandshakeRequest(mechanism=login.mechanism)
    response = await connection.ask_at_once(handshake, timeout_ms=timeout_ms, version_max=_HANDSHAKE_VERSION)
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(response.mechanisms) or "none"
        raise AuthenticationFailed(
            f"{connection.endpoint} does not offer the mechanism {login.mechanism}; it offers {offered}."
        )
    if response.error_code:
        raise AuthenticationFailed(
            f"{connection.endpoint} expects no login; set security.protocol=PLAINTEXT, or use its SASL listener."
        )
    token: bytes | None = exchange.begin()
    session_ms = 0
    while token is not None:
        answer = await connection.ask_at_once(SaslAuthenticateRequest(auth_bytes=token), timeout_ms=timeout_ms)
        if answer.error_code:
            reason = answer.error_message or ErrorCode(answer.error_code).name
            raise AuthenticationFailed(
                f"{connection.endpoint} refused the login of {login.user} with {login.mechanism}: {reason}"
            )
        session_ms = answer.session_lifetime_ms
        try:
            # The keys of SCRAM take milliseconds to derive.
            token = await asyncio.to_thread(exchange.evaluate, bytes(answer.auth_bytes))
        except SaslError as error:
            raise AuthenticationFailed(f"{connection.endpoint}: {error}") from None
    if not exchange.is_complete:
        raise AuthenticationFailed(f"{connection.endpoint} ended the login too early.")
    return session_ms
