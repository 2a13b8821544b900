"""The TLS of one listener: its context, the principals of its clients, and the exchange of its certificate.

New handshakes use the newest context. Connections that are open keep theirs, so that a new certificate closes none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.context import ANONYMOUS, Principal
from ottla.host.tls_handshake import Handshakes
from ottla.host.tls_settings import listener_properties, listener_tls_settings
from ottla.host.tls_stream import TlsStream
from ottla.tls.certificates import DerError, parse_certificate
from ottla.tls.ciphers import is_allowed
from ottla.tls.contexts import server_context
from ottla.tls.names import subject_name
from ottla.tls.principals import NoMatchingRule, PrincipalRules

if TYPE_CHECKING:
    import socket
    import ssl

    from ottla.host.loop import EventLoop
    from ottla.model.config import BrokerConfig

__all__ = ["TlsListener"]

logger = logging.getLogger("ottla.host.tls_listener")

OnOpen = Callable[[TlsStream, Principal], object]
OnFailed = Callable[[str | None], object]


class TlsListener:
    """Raises TlsError if the settings cannot be used."""

    def __init__(self, loop: EventLoop, config: BrokerConfig, listener_name: str) -> None:
        self.name = listener_name
        self._settings = listener_tls_settings(config, listener_name)
        self._context = server_context(self._settings)
        rules = listener_properties(config, listener_name).get("ssl.principal.mapping.rules", "DEFAULT")
        self._rules = PrincipalRules(rules)
        self._handshakes = Handshakes(loop)

    @property
    def handshakes(self) -> int:
        """Connections whose handshake is not complete."""
        return len(self._handshakes)

    def begin(self, accepted: socket.socket, on_open: OnOpen, on_failed: OnFailed) -> None:
        """Takes over an accepted socket until one of the functions is called."""

        def on_done(connected: ssl.SSLSocket) -> None:
            try:
                principal = self._principal(connected)
            except _Refused as refusal:
                connected.close()
                on_failed(str(refusal))
            else:
                on_open(TlsStream(connected), principal)

        self._handshakes.begin(accepted, self._context, on_done, on_failed)

    def close(self) -> None:
        self._handshakes.close()

    def _principal(self, connected: ssl.SSLSocket) -> Principal:
        suites = self._settings.cipher_suites
        cipher = connected.cipher()
        if cipher is not None and not is_allowed(cipher[0], suites):
            raise _Refused(f"the cipher suite {cipher[0]} is not one of ssl.cipher.suites")
        shown = connected.getpeercert(binary_form=True)
        if shown is None:
            return ANONYMOUS
        try:
            return Principal("User", self._rules.name_of(subject_name(parse_certificate(shown))))
        except (NoMatchingRule, DerError) as error:
            raise _Refused(str(error)) from None


class _Refused(Exception):
    """The handshake is complete, but the connection is not accepted."""
