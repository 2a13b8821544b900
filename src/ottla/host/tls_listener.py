"""The TLS of one listener: its context, the principals of its clients, and the exchange of its certificate.

New handshakes use the newest context. Connections that are open keep theirs, so that a new certificate closes none.
"""

from __future__ import annotations

import ssl
from calendar import timegm
from collections.abc import Callable
from time import strptime
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.context import ANONYMOUS, Principal
from ottla.host.tls_handshake import Handshakes
from ottla.host.tls_settings import file_stamps, listener_properties, listener_tls_settings
from ottla.host.tls_stream import TlsStream
from ottla.tls.certificates import Certificate, DerError, parse_certificate
from ottla.tls.ciphers import is_allowed
from ottla.tls.contexts import server_context
from ottla.tls.errors import TlsError
from ottla.tls.names import canonical_name, subject_name, subject_values
from ottla.tls.principals import NoMatchingRule, PrincipalRules
from ottla.tls.settings import TlsSettings
from ottla.tls.stores import certificates_in_pem, read_key

if TYPE_CHECKING:
    import socket

    from ottla.host.loop import EventLoop
    from ottla.host.stranger_turns import StrangerTurns
    from ottla.model.config import BrokerConfig

__all__ = ["LoadedTls", "TlsListener"]

OnOpen = Callable[[TlsStream, Principal], object]
OnFailed = Callable[[str | None], object]


class LoadedTls(NamedTuple):
    """The settings of a listener, and the content of its stores."""

    settings: TlsSettings
    context: ssl.SSLContext
    # The listener's own.
    certificate: Certificate
    # The stamps of the files at the time of reading.
    stamps: tuple[object, ...]


class TlsListener:
    """Raises TlsError if the settings cannot be used."""

    def __init__(self, loop: EventLoop, config: BrokerConfig, listener_name: str, turns: StrangerTurns) -> None:
        self.name = listener_name
        self._loaded = self.load(config)
        self._rules = PrincipalRules(
            listener_properties(config, listener_name).get("ssl.principal.mapping.rules", "DEFAULT")
        )
        self._groups_attribute = config.ottla_groups_certificate_attribute
        self._handshakes = Handshakes(loop, turns)

    def load(self, config: BrokerConfig) -> LoadedTls:
        """Reads the stores of a configuration; blocks. Raises TlsError."""
        settings = listener_tls_settings(config, self.name)
        # The stamps are taken before the files are read, so that a file that changes meanwhile is read again.
        stamps = file_stamps(settings)
        context = server_context(settings)
        material = read_key(settings)
        assert material is not None, "checked with the context"
        return LoadedTls(settings, context, parse_certificate(_first_certificate(material.chain)), stamps)

    def differs(self, config: BrokerConfig) -> bool:
        """True if the settings or one of their files have changed."""
        settings = listener_tls_settings(config, self.name)
        return settings != self._loaded.settings or file_stamps(settings) != self._loaded.stamps

    def check(self, loaded: LoadedTls, config: BrokerConfig) -> None:
        """Raises TlsError if clients that accept the current certificate may refuse the new one (KIP-226)."""
        old, new = self._loaded.certificate, loaded.certificate
        if not config.ssl_allow_dn_changes and canonical_name(new) != canonical_name(old):
            raise TlsError(
                f"The new certificate is for {subject_name(new)}, but the present one is for {subject_name(old)}; set "
                "ssl.allow.dn.changes=true to allow that.",
                key="ssl.keystore.location",
            )
        missing = old.alternative_names - new.alternative_names
        if missing and not config.ssl_allow_san_changes:
            raise TlsError(
                f"The new certificate lacks {len(missing)} alternative names of the present one; set "
                "ssl.allow.san.changes=true to allow that.",
                key="ssl.keystore.location",
            )

    def use(self, loaded: LoadedTls) -> None:
        """Uses these settings for new connections."""
        self._loaded = loaded

    @property
    def expires(self) -> str:
        """The time at which the certificate expires, as YYYYMMDDHHMMSSZ."""
        return self._loaded.certificate.not_after

    @property
    def expires_seconds(self) -> float:
        """The time at which the certificate expires, in seconds since 1970."""
        return float(timegm(strptime(self.expires[:14], "%Y%m%d%H%M%S")))

    @property
    def handshakes(self) -> int:
        """The number of connections whose handshake is not complete."""
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

        self._handshakes.begin(accepted, self._loaded.context, on_done, on_failed)

    def close_oldest_handshake(self) -> None:
        self._handshakes.close_oldest()

    def close(self) -> None:
        self._handshakes.close()

    def _principal(self, connected: ssl.SSLSocket) -> Principal:
        suites = self._loaded.settings.cipher_suites
        cipher = connected.cipher()
        if cipher is not None and not is_allowed(cipher[0], suites):
            raise _Refused(f"the cipher suite {cipher[0]} is not one of ssl.cipher.suites")
        shown = connected.getpeercert(binary_form=True)
        if shown is None:
            return ANONYMOUS
        try:
            certificate = parse_certificate(shown)
            groups = subject_values(certificate, self._groups_attribute) if self._groups_attribute else ()
            return Principal("User", self._rules.name_of(subject_name(certificate)), groups)
        except (NoMatchingRule, DerError) as error:
            raise _Refused(str(error)) from None


class _Refused(Exception):
    """The handshake is complete, but the connection is not accepted."""


def _first_certificate(chain: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificates_in_pem(chain)[0].decode())
