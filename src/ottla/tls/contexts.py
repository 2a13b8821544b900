"""Contexts of Python's `ssl` for listeners and clients, from the settings and their key stores.

A trusted certificate need not be the root of its chain, as in Java. Renegotiation and compression are off. Sessions are
resumed by tickets.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ottla.tls.ciphers import openssl_ciphers, versions_of
from ottla.tls.errors import TlsError
from ottla.tls.stores import KeyMaterial, read_key, read_trusted

if TYPE_CHECKING:
    from ottla.tls.settings import TlsSettings

__all__ = ["check_own_trust", "client_context", "server_context"]

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a listener; raises TlsError."""
    material = read_key(settings)
    if material is None:
        raise TlsError(
            "A listener with TLS needs a private key and a certificate: set ssl.keystore.location, or ssl.keystore.key "
            "and ssl.keystore.certificate.chain.",
            key="ssl.keystore.location",
        )
    context = _new_context(ssl.PROTOCOL_TLS_SERVER, settings)
    _load(context, material)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if settings.client_auth != "none":
        _trust(context, settings, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a client; raises TlsError."""
    context = _new_context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.checks_host_name
    context.verify_mode = ssl.CERT_REQUIRED
    material = read_key(settings)
    if material is not None:
        _load(context, material)
    _trust(context, settings, ssl.Purpose.SERVER_AUTH)
    return context


def check_own_trust(settings: TlsSettings) -> None:
    """Raises TlsError if a node with these settings refuses the certificate of a node with the same settings."""
    server, client = server_context(settings), client_context(settings._replace(checks_host_name=False))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    far = server.wrap_bio(to_server, to_client, server_side=True)
    near = client.wrap_bio(to_client, to_server)
    try:
        for end in (near, far) * 3:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or error.reason or "it is refused"
        raise TlsError(
            f"Other nodes would refuse the certificate of the key store, because the trust store does not accept it: "
            f"{reason}.",
            key="ssl.truststore.location",
        ) from None


def _new_context(protocol: int, settings: TlsSettings) -> ssl.SSLContext:
    versions = versions_of(settings.cipher_suites, settings.versions)
    context = ssl.SSLContext(protocol)
    context.minimum_version = _VERSIONS[versions[0]]
    context.maximum_version = _VERSIONS[versions[-1]]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    ciphers = openssl_ciphers(settings.cipher_suites)
    if ciphers:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError:
            raise TlsError(
                f"None of the cipher suites of ssl.cipher.suites is available: {', '.join(settings.cipher_suites)}.",
                key="ssl.cipher.suites",
            ) from None
    return context


def _trust(context: ssl.SSLContext, settings: TlsSettings, purpose: ssl.Purpose) -> None:
    trusted = read_trusted(settings)
    if trusted is None:
        # As in Java, the authorities of the machine are trusted.
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=trusted.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise TlsError(
            "The trust store has a certificate that cannot be read.",
            key="ssl.truststore.location" if settings.trust_store.location else "ssl.truststore.certificates",
        ) from None


def _load(context: ssl.SSLContext, material: KeyMaterial) -> None:
    """`ssl` loads keys from files only. The file is in memory, where the system has such files."""
    data = material.key + material.chain

    def password() -> str:
        # Without a password OpenSSL would ask the terminal for it.
        return material.password or ""

    try:
        _with_file(data, lambda path: context.load_cert_chain(path, password=password))
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(_load_problem(error, material), key="ssl.keystore.location") from None


def _load_problem(error: Exception, material: KeyMaterial) -> str:
    reason = getattr(error, "reason", None) or ""
    if reason == "KEY_VALUES_MISMATCH":
        return "The private key of the key store does not belong to its first certificate."
    if b"ENCRYPTED" in material.key and material.password is None:
        return "The private key of the key store is encrypted: set ssl.key.password."
    if b"ENCRYPTED" in material.key:
        return "The private key of the key store cannot be decrypted: check ssl.key.password."
    return f"The private key or certificate of the key store cannot be used ({reason or 'not valid'})."


def _with_file(data: bytes, load: Callable[[str], None]) -> None:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            load(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        load(file.name)
