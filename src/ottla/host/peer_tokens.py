"""The bearer tokens with which this node logs in at other nodes (OAUTHBEARER).

| the token comes from | settings of the listener |
|---|---|
| a token endpoint | `sasl.oauthbearer.token.endpoint.url`, and the client's id and secret |
| a file | `sasl.oauthbearer.token.endpoint.url=file:///...` |
| this node, unsigned | the option `unsecuredLoginStringClaim_sub` of the login module |

The address or the file must be in the node's list of allowed ones, as for the keys that check tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.authentication.oauth_settings import ensure_allowed
from ottla.model.config.keys import ConfigError
from ottla.model.config.values import Password
from ottla.model.deferred import Deferred
from ottla.sasl.client_tokens import (
    ANSWER_BYTES_MAX,
    TOKEN_BYTES_MAX,
    ClientCredentials,
    ClientToken,
    extensions_of,
    grant_request,
    refusal_of,
    token_in_answer,
    unsecured_claims,
    unsecured_token,
)
from ottla.sasl.exchange import SaslError

if TYPE_CHECKING:
    from ottla.broker.authentication.listener_settings import ListenerSettings
    from ottla.model.ports import Workers

__all__ = ["PeerTokens", "peer_tokens"]

OAUTHBEARER = "OAUTHBEARER"
_URL = "sasl.oauthbearer.token.endpoint.url"
_CALLBACK = "sasl.login.callback.handler.class"
_CLASSES = "org.apache.kafka.common.security.oauthbearer."
# Kafka's classes, which are accepted without an effect, because other settings select the token.
_KAFKAS_CALLBACKS = frozenset(
    _CLASSES + name
    for name in (
        "OAuthBearerLoginCallbackHandler",
        "secured.OAuthBearerLoginCallbackHandler",
        "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    )
)
TIMEOUT_SECONDS = 10.0
# A token that expires sooner is not used when the next token cannot be fetched.
REMAINING_MS_MIN = 2_000


class PeerTokens:
    """Keeps a token until `window_factor` of its life has passed. Logins at the same time share one fetch.

    `fetch` blocks, and runs on a worker. If it fails, the old token is used while it is valid.
    """

    def __init__(
        self,
        fetch: Callable[[], ClientToken],
        *,
        user: str,
        window_factor: float = 0.8,
        extensions: dict[str, str] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._fetch = fetch
        self._window_factor = window_factor
        self._workers = workers
        self._token: ClientToken | None = None
        self._stale_at_ms = 0.0
        self._pending: Deferred[ClientToken] | None = None
        self.user = user
        self.extensions = extensions

    def current(self) -> Deferred[ClientToken]:
        if self._token is not None and _now_ms() < self._stale_at_ms:
            return Deferred.resolved(self._token)
        pending = self._pending
        if pending is None:
            pending = self._pending = self._fetched().recover(Exception, self._old_token)
            pending.when_done(self._on_fetched)
        return pending

    def _fetched(self) -> Deferred[ClientToken]:
        if self._workers is not None:
            return self._workers.submit(self._fetch)
        try:
            return Deferred.resolved(self._fetch())
        except SaslError as error:
            return Deferred.failed(error)

    def _old_token(self, error: Exception) -> ClientToken:
        """The token that is still valid; raises the error if there is none."""
        token = self._token
        if token is None or (token.expires_ms is not None and token.expires_ms < _now_ms() + REMAINING_MS_MIN):
            raise error
        return token

    def _on_fetched(self, fetched: Deferred[ClientToken]) -> None:
        self._pending = None
        if fetched.error is None and (token := fetched.result()) is not self._token:
            self._token = token
            self._stale_at_ms = token.stale_at_ms(_now_ms(), self._window_factor)


def peer_tokens(settings: ListenerSettings, options: Mapping[str, str], workers: Workers | None) -> PeerTokens:
    """`options` are the options of the login module. Raises ConfigError for a missing or forbidden setting."""
    callback = settings.get(_CALLBACK, OAUTHBEARER)
    if callback is not None and callback not in _KAFKAS_CALLBACKS:
        key = settings.source(_CALLBACK, OAUTHBEARER)
        raise ConfigError(f"{key} is {callback}, which cannot be loaded. Remove it, or use a token endpoint.", key=key)
    user, fetch = _source(settings, options)
    window = settings.get("sasl.login.refresh.window.factor", OAUTHBEARER)
    return PeerTokens(
        fetch,
        user=user,
        window_factor=window if isinstance(window, float) else 0.8,
        extensions=extensions_of(options),
        workers=workers,
    )


def _source(settings: ListenerSettings, options: Mapping[str, str]) -> tuple[str, Callable[[], ClientToken]]:
    """The user for messages, and the function that blocks until it has a token."""
    url = settings.get(_URL, OAUTHBEARER)
    if not isinstance(url, str):
        return _unsecured_source(settings, options)
    ensure_allowed(settings, _URL, url)
    if url.lower().startswith("file:"):
        path = url[len("file:") :].removeprefix("//")
        return f"the token of {path}", lambda: _read_token(path)
    credentials = _credentials(settings, options, url)
    return credentials.client_id, lambda: _request_token(credentials)


def _unsecured_source(settings: ListenerSettings, options: Mapping[str, str]) -> tuple[str, Callable[[], ClientToken]]:
    key = settings.key("sasl.jaas.config", OAUTHBEARER)
    try:
        claims = unsecured_claims(options)
    except SaslError as error:
        raise ConfigError(f"{key} cannot be used: {error}", key=key) from None
    if "sub" not in claims:
        raise ConfigError(
            f"This node logs in at other nodes with OAUTHBEARER, so {_URL} or {settings.key(_URL, OAUTHBEARER)} must "
            f"name a token endpoint or a file; or, for tests, {key} must have unsecuredLoginStringClaim_sub.",
            key=key,
        )
    seconds = options.get("unsecuredLoginLifetimeSeconds", "3600")
    if not seconds.isdecimal():
        raise ConfigError(f"{key} has an unsecuredLoginLifetimeSeconds that is no number.", key=key)
    lifetime = int(seconds)
    return str(claims["sub"]), lambda: unsecured_token(claims, now_seconds=time.time(), lifetime_seconds=lifetime)


def _credentials(settings: ListenerSettings, options: Mapping[str, str], url: str) -> ClientCredentials:
    client_id = settings.get("sasl.oauthbearer.client.credentials.client.id", OAUTHBEARER) or options.get("clientId")
    secret = settings.get("sasl.oauthbearer.client.credentials.client.secret", OAUTHBEARER)
    text = secret.value if isinstance(secret, Password) else options.get("clientSecret")
    if not client_id or not text:
        key = settings.key("sasl.jaas.config", OAUTHBEARER)
        raise ConfigError(
            f"{_URL} needs a client's id and secret: set sasl.oauthbearer.client.credentials.client.id and "
            f"sasl.oauthbearer.client.credentials.client.secret, or clientId and clientSecret in {key}.",
            key=key,
        )
    scope = settings.get("sasl.oauthbearer.scope", OAUTHBEARER) or options.get("scope")
    timeout_ms = settings.get("sasl.login.read.timeout.ms", OAUTHBEARER)
    return ClientCredentials(
        url=url,
        client_id=str(client_id),
        client_secret=text,
        scope=None if scope is None else str(scope),
        timeout_seconds=timeout_ms / 1000 if isinstance(timeout_ms, int) else TIMEOUT_SECONDS,
    )


def _read_token(path: str) -> ClientToken:
    """Reads the file again for every token, because another program may replace it."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(TOKEN_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SaslError(f"The file of the token cannot be read: {reason}.") from None
    if not text:
        raise SaslError("The file of the token is empty.")
    return ClientToken.received(text, now_ms=_now_ms())


def _request_token(credentials: ClientCredentials) -> ClientToken:
    """Makes one attempt. If the login fails, a later connection tries again after a pause."""
    from ottla.host.http_requests import HttpRefused, fetch_document

    headers, form = grant_request(credentials)
    try:
        answer = fetch_document(
            credentials.url,
            timeout_seconds=credentials.timeout_seconds,
            headers=headers,
            form=form,
            bytes_max=ANSWER_BYTES_MAX,
        )
    except HttpRefused as error:
        raise SaslError(refusal_of(credentials, error.status)) from None
    except OSError as error:
        raise SaslError(f"The token endpoint {credentials.url} cannot be used: {error}.") from None
    return token_in_answer(answer, credentials.url, now_ms=_now_ms())


def _now_ms() -> int:
    return int(time.time() * 1000)
