"""The login of this node at other nodes: passwords, bearer tokens, tickets of Kerberos.

The login module of `listener.name.<name>.<mechanism>.sasl.jaas.config` has the credentials, as in Apache Kafka:

| mechanism | options of the login module |
|---|---|
| PLAIN, SCRAM | `username`, `password` |
| OAUTHBEARER | `clientId`, `clientSecret` and `scope` for a token endpoint; `unsecuredLoginStringClaim_sub` |
| GSSAPI | `keyTab`, `principal` |

A token that has to be fetched, and a ticket, are awaited on a worker (`peer_tokens`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar, cast

from ottla.model.config.keys import ConfigError
from ottla.model.deferred import Deferred
from ottla.sasl.scram import MECHANISMS as SCRAM_MECHANISMS

if TYPE_CHECKING:
    from ottla.broker.authentication.listener_settings import ListenerSettings
    from ottla.host.peer_tokens import PeerTokens
    from ottla.model.ports import Workers
    from ottla.sasl.exchange import ClientExchange
    from ottla.wire.connection.client_login import Login, TokenExchange

__all__ = ["KerberosPeerLogin", "PasswordPeerLogin", "TokenPeerLogin", "login_of_listener"]

T = TypeVar("T")
_JAAS = "sasl.jaas.config"
_CALLBACK = "sasl.login.callback.handler.class"
AVAILABLE = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER", "GSSAPI")


def login_of_listener(settings: ListenerSettings, mechanism: str, mechanism_key: str, workers: Workers | None) -> Login:
    """`mechanism_key` is the key that names the mechanism. Raises ConfigError if a credential is missing."""
    if mechanism not in AVAILABLE:
        raise ConfigError(
            f"{mechanism_key} is {mechanism}, which is not available; use one of {', '.join(AVAILABLE)}.",
            key=mechanism_key,
        )
    if mechanism == "OAUTHBEARER":
        from ottla.host.peer_tokens import peer_tokens

        return TokenPeerLogin(peer_tokens(settings, _options(settings, mechanism) or {}, workers))
    if (callback := settings.get(_CALLBACK, mechanism)) is not None:
        key = settings.source(_CALLBACK, mechanism)
        raise ConfigError(f"{key} is {callback}, which has no meaning for {mechanism}; remove it.", key=key)
    options = _options(settings, mechanism)
    shown = settings.key(_JAAS, mechanism)
    if mechanism == "GSSAPI":
        return _kerberos_login(settings, options or {}, shown, workers)
    if options is None:
        raise ConfigError(
            f"{mechanism_key} is {mechanism}, so {shown} must have the username and password with which this node logs "
            "in at other nodes.",
            key=shown,
        )
    if "username" not in options or "password" not in options:
        raise ConfigError(
            f"{shown} must have username and password, with which this node logs in at other nodes.", key=shown
        )
    return PasswordPeerLogin(mechanism, options["username"], options["password"], workers)


def _options(settings: ListenerSettings, mechanism: str) -> Mapping[str, str] | None:
    """The options of the first login module; None if there is none."""
    from ottla.sasl.jaas import JaasError, parse_jaas

    text = settings.own_text(_JAAS, mechanism)
    if text is None:
        return None
    try:
        return parse_jaas(text)[0].options
    except JaasError as error:
        shown = settings.key(_JAAS, mechanism)
        raise ConfigError(f"{shown} cannot be read. {error}", key=shown) from None


def _kerberos_login(
    settings: ListenerSettings, options: Mapping[str, str], shown: str, workers: Workers | None
) -> KerberosPeerLogin:
    if find_spec("gssapi") is None:
        raise ConfigError("GSSAPI needs the package gssapi: pip install '.[gssapi]' in a checkout.", key=shown)
    keytab, principal = options.get("keyTab"), options.get("principal")
    if not keytab or not principal:
        raise ConfigError(
            f"{shown} must name keyTab and principal, with which this node logs in at other nodes.", key=shown
        )
    service = settings.get("sasl.kerberos.service.name", "GSSAPI") or options.get("serviceName")
    if service is None:
        # The nodes of a cluster are one service.
        service = principal.partition("@")[0].partition("/")[0]
    return KerberosPeerLogin(str(service), principal, keytab, workers)


class PasswordPeerLogin:
    def __init__(self, mechanism: str, user: str, password: str, workers: Workers | None) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password = password
        self._workers = workers

    def new_exchange(self, host: str) -> Deferred[TokenExchange]:  # noqa: ARG002
        from ottla.sasl.plain import PlainClient
        from ottla.sasl.scram import ScramClient

        if self.mechanism in SCRAM_MECHANISMS:
            return Deferred.resolved(ScramClient(self.mechanism, self.user, self._password))
        return Deferred.resolved(PlainClient(self.user, self._password))

    def evaluate(self, exchange: TokenExchange, challenge: bytes) -> Deferred[bytes | None]:
        # The keys of SCRAM take milliseconds to derive.
        return _run(self._workers, _evaluate, exchange, challenge)


class TokenPeerLogin:
    """OAUTHBEARER."""

    mechanism = "OAUTHBEARER"

    def __init__(self, tokens: PeerTokens) -> None:
        self._tokens = tokens
        self.user = tokens.user

    def new_exchange(self, host: str) -> Deferred[TokenExchange]:  # noqa: ARG002
        from ottla.sasl.oauthbearer import OAuthBearerClient

        extensions = self._tokens.extensions
        return self._tokens.current().then(lambda token: OAuthBearerClient(token.value, extensions=extensions))

    def evaluate(self, exchange: TokenExchange, challenge: bytes) -> Deferred[bytes | None]:
        return _run(None, _evaluate, exchange, challenge)


class KerberosPeerLogin:
    """GSSAPI, with a file of keys. Every step may ask the key distribution center, so it runs on a worker."""

    mechanism = "GSSAPI"

    def __init__(self, service: str, principal: str, keytab: str, workers: Workers | None) -> None:
        self._service = service
        self._keytab = keytab
        self._workers = workers
        self.user = principal

    def new_exchange(self, host: str) -> Deferred[TokenExchange]:
        return _run(self._workers, self._begin, host)

    def _begin(self, host: str) -> TokenExchange:
        from ottla.sasl.gssapi_exchange import GssapiClient, keytab_credentials

        # New credentials for every login, because tickets expire.
        credentials = keytab_credentials(self._keytab, self.user, cache=f"ottla-{id(self)}")
        return GssapiClient(self._service, host, credentials)

    def evaluate(self, exchange: TokenExchange, challenge: bytes) -> Deferred[bytes | None]:
        return _run(self._workers, _evaluate, exchange, challenge)


def _evaluate(exchange: TokenExchange, challenge: bytes) -> bytes | None:
    # Every exchange of this module is one of `ottla.sasl`.
    return cast("ClientExchange", exchange).evaluate(challenge)


def _run(workers: Workers | None, function: Callable[..., T], *arguments: object) -> Deferred[T]:
    if workers is not None:
        return workers.submit(function, *arguments)
    try:
        return Deferred.resolved(function(*arguments))
    except Exception as error:  # noqa: BLE001 - the deferred has it
        return Deferred.failed(error)
