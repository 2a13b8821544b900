"""The listeners of a worker's REST interface: `listeners=http://host:port,https://host:port`, as in Kafka Connect.

The TLS settings of https are `listeners.https.ssl.*`; without them, the TLS settings of the worker's clients, `ssl.*`.
They serve both sides: the listener, and requests that this worker passes on to another worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from ottla.connect.api.config_definitions import ConfigError
from ottla.tls.errors import TlsError
from ottla.tls.settings import TlsSettings, tls_settings

__all__ = ["DEFAULT_LISTENER", "RestListener", "advertised_listener", "rest_listeners", "rest_tls"]

# Kafka Connect listens on every address. A client of the interface can run code on the worker, so this worker
# is reachable only from its own machine, unless `listeners` names other addresses.
DEFAULT_LISTENER = "http://127.0.0.1:8083"
DEFAULT_PORT = 8083
_SCHEMES = ("http", "https")
_PREFIX = "listeners.https."


class RestListener(NamedTuple):
    """An empty host means all addresses."""

    scheme: str
    host: str
    port: int


def rest_listeners(texts: Sequence[str]) -> list[RestListener]:
    """The listeners of the setting `listeners`, or the default listener. Raises ConfigError."""
    return [_listener(text) for text in texts or [DEFAULT_LISTENER]]


def advertised_listener(listeners: Sequence[RestListener], wanted: str | None) -> int:
    """The number of the listener for other workers: the first of the scheme that `rest.advertised.listener` names."""
    if not wanted:
        return 0
    for number, listener in enumerate(listeners):
        if listener.scheme == wanted.lower():
            return number
    raise ConfigError(
        f"rest.advertised.listener is '{wanted}', but it must be the protocol of one of the listeners.",
        name="rest.advertised.listener",
    )


def rest_tls(properties: Mapping[str, str]) -> TlsSettings:
    """The TLS settings of https listeners. Raises ConfigError."""
    own = {key.removeprefix(_PREFIX): text for key, text in properties.items() if key.startswith(_PREFIX)}
    try:
        return tls_settings(own or properties)
    except TlsError as error:
        raise ConfigError(error.message, name=f"{_PREFIX if own else ''}{error.key or 'ssl'}") from None


def _listener(text: str) -> RestListener:
    address = urlsplit(text.strip())
    scheme = address.scheme.lower()
    if scheme not in _SCHEMES:
        raise ConfigError(f"listeners has '{text}', but a listener begins with http:// or https://.", name="listeners")
    try:
        port = address.port
    except ValueError:
        raise ConfigError(
            f"listeners has '{text}', whose port is not a number up to 65535.", name="listeners"
        ) from None
    return RestListener(scheme, address.hostname or "", DEFAULT_PORT if port is None else port)
