"""The settings of OAUTHBEARER, by the names of Kafka's clients and of librdkafka.

| the token comes from | settings |
|---|---|
| a token endpoint | `sasl.oauthbearer.token.endpoint.url`, and the client's id and secret |
| a file | `sasl.oauthbearer.token.endpoint.url=file:///...` |
| a function of the program | `sasl.login.callback.handler.class`, where a program has a function instead of a name |
| the client itself, unsigned | the option `unsecuredLoginStringClaim_sub` of the login module |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.oauth.allowed import allowed_file, allowed_url, is_file_url
from ottla.client.oauth.sources import ClientCredentials, from_callable, from_endpoint, from_file, unsecured
from ottla.client.oauth.tokens import OAuthLogin
from ottla.sasl.client_tokens import extensions_of, unsecured_claims
from ottla.sasl.exchange import SaslError

__all__ = ["oauth_login_of"]

_URL = "sasl.oauthbearer.token.endpoint.url"
_CALLBACK = "sasl.login.callback.handler.class"
# The other settings determine what these classes do.
_KAFKAS_CALLBACKS = frozenset(
    f"org.apache.kafka.common.security.oauthbearer.{name}"
    for name in (
        "OAuthBearerLoginCallbackHandler",
        "secured.OAuthBearerLoginCallbackHandler",
        "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    )
)


def oauth_login_of(properties: Mapping[str, str], options: Mapping[str, str]) -> OAuthLogin:
    """`options` are those of the login module. Raises ClientError with what is missing or not allowed."""
    window = _number(properties, "sasl.login.refresh.window.factor", 0.8)
    extensions = extensions_of(options)
    callback: Any = properties.get(_CALLBACK)
    if callable(callback):
        return OAuthLogin(from_callable(callback), window_factor=window, extensions=extensions)
    if callback is not None and callback not in _KAFKAS_CALLBACKS:
        raise ClientError(f"{_CALLBACK}={callback} cannot be loaded; a program can set it to a function.")
    url = properties.get(_URL)
    if url is None:
        claims = _claims(options)
        if "sub" not in claims:
            raise ClientError(
                f"The login with OAUTHBEARER needs {_URL} with an address or a file, or, for tests, the option "
                "unsecuredLoginStringClaim_sub of the login module in sasl.jaas.config."
            )
        seconds = _number(options, "unsecuredLoginLifetimeSeconds", 3600)
        source = unsecured(claims, lifetime_seconds=int(seconds))
        return OAuthLogin(source, user=str(claims["sub"]), window_factor=window, extensions=extensions)
    if is_file_url(url):
        return OAuthLogin(from_file(allowed_file(_URL, url)), window_factor=window, extensions=extensions)
    credentials = _credentials(properties, options, allowed_url(_URL, url))
    return OAuthLogin(
        from_endpoint(credentials), user=credentials.client_id, window_factor=window, extensions=extensions
    )


def _credentials(properties: Mapping[str, str], options: Mapping[str, str], url: str) -> ClientCredentials:
    # Kafka 4.1 and later, librdkafka, and the options of the login module of older Kafka.
    client_id = (
        properties.get("sasl.oauthbearer.client.credentials.client.id")
        or properties.get("sasl.oauthbearer.client.id")
        or options.get("clientId")
    )
    secret = (
        properties.get("sasl.oauthbearer.client.credentials.client.secret")
        or properties.get("sasl.oauthbearer.client.secret")
        or options.get("clientSecret")
    )
    if not client_id or not secret:
        raise ClientError(
            f"{_URL} needs a client's id and secret: set sasl.oauthbearer.client.credentials.client.id and "
            "sasl.oauthbearer.client.credentials.client.secret."
        )
    return ClientCredentials(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=properties.get("sasl.oauthbearer.scope") or options.get("scope"),
        timeout_seconds=_number(properties, "sasl.login.read.timeout.ms", 10_000) / 1000,
        retry_seconds=_number(properties, "sasl.login.retry.backoff.ms", 100) / 1000,
        retry_seconds_max=_number(properties, "sasl.login.retry.backoff.max.ms", 10_000) / 1000,
    )


def _claims(options: Mapping[str, str]) -> dict[str, object]:
    try:
        return unsecured_claims(options)
    except SaslError as error:
        raise ClientError(str(error)) from None


def _number(values: Mapping[str, str], key: str, default: float) -> float:
    text = values.get(key)
    try:
        return default if text is None else float(text)
    except ValueError:
        raise ClientError(f"{key}={text!r} is not a number.") from None
