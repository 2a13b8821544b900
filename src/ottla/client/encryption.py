"""Connections over TLS, by the settings of Kafka's clients (`ssl.*`).

The handshake checks the certificate of the node, and its name, before the first byte of Kafka's protocol is sent. An
error names the setting and what is wrong with it. A failure that a retry cannot change is an `AuthenticationFailed`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from ottla.tls.ciphers import is_allowed
from ottla.tls.contexts import client_context
from ottla.tls.errors import TlsError
from ottla.tls.explain import explain_client_failure
from ottla.tls.settings import TlsSettings, tls_settings

if TYPE_CHECKING:
    from ottla.client.connection import Connection, Connector
    from ottla.wire.peers import Endpoint

__all__ = ["tls_connector", "tls_of"]

# The names of librdkafka, in Kafka's words.
_LIBRDKAFKA: Final = {
    "ssl.ca.location": ("ssl.truststore.location", "ssl.truststore.type"),
    "ssl.ca.pem": ("ssl.truststore.certificates", "ssl.truststore.type"),
    "ssl.key.pem": ("ssl.keystore.key", "ssl.keystore.type"),
    "ssl.certificate.pem": ("ssl.keystore.certificate.chain", "ssl.keystore.type"),
}


def tls_of(properties: Mapping[str, str]) -> TlsSettings:
    """The TLS settings of a properties file; raises ClientError."""
    given = dict(properties)
    for name, (key, type_key) in _LIBRDKAFKA.items():
        if name in given and key not in given:
            given[key], given[type_key] = given[name], "PEM"
    if "ssl.key.location" in given and "ssl.certificate.location" in given and "ssl.keystore.location" not in given:
        given["ssl.keystore.key"] = _text_of(given["ssl.key.location"], "ssl.key.location")
        given["ssl.keystore.certificate.chain"] = _text_of(
            given["ssl.certificate.location"], "ssl.certificate.location"
        )
        given["ssl.keystore.type"] = "PEM"
    try:
        return tls_settings(given)
    except TlsError as error:
        raise ClientError(error.message) from None


def _text_of(path: str, key: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"{key} is {path}, which cannot be read: {error}.") from None


def tls_connector(settings: TlsSettings) -> Connector:
    """Reads the key stores and makes connections with them; raises ClientError."""
    try:
        context = client_context(settings)
    except TlsError as error:
        raise ClientError(error.message) from None

    async def connect(connection: Connection) -> None:
        connection.explain = _failure
        host, port = connection.endpoint
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_connection(
                lambda: connection, host, port, ssl=context, server_hostname=host
            )
        except (ssl.SSLError, BrokenPipeError, ConnectionResetError, ConnectionAbortedError) as error:
            raise _failure(error, connection.endpoint) from None
        cipher = transport.get_extra_info("cipher")
        if cipher is not None and not is_allowed(cipher[0], settings.cipher_suites):
            raise AuthenticationFailed(
                f"{connection.endpoint} chose the cipher suite {cipher[0]}, which is not one of ssl.cipher.suites."
            )

    return connect


def _failure(error: Exception, endpoint: Endpoint) -> ClientError:
    if not isinstance(error, OSError):
        return ConnectionLost(f"{endpoint}: {error}")
    # A node that is stopping ends handshakes, too.
    may_pass = isinstance(error, ssl.SSLEOFError | ConnectionError)
    sentence = f"{endpoint}: {explain_client_failure(error, endpoint.host)}."
    return ConnectionLost(sentence) if may_pass else AuthenticationFailed(sentence)
