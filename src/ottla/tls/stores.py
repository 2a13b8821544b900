"""Reads key stores and trust stores: PEM, and PKCS12. JKS, Java's own format, is refused with a command to convert it.

Java opens a PKCS12 file even if the type is JKS, which is Kafka's default. So the first bytes decide between the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.tls.errors import TlsError
from ottla.tls.settings import StoreSettings, TlsSettings

__all__ = ["KeyMaterial", "certificates_in_pem", "read_key", "read_trusted"]

_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_PEM_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
# The largest size of a store. A bundle of all public authorities has a quarter of a megabyte.
_STORE_BYTES_MAX: Final = 16 * 1024 * 1024


class KeyMaterial(NamedTuple):
    """A private key and its certificate chain, in PEM. The password is that of the key."""

    key: bytes
    chain: bytes
    password: str | None

    def __repr__(self) -> str:
        """Without the key."""
        return "KeyMaterial()"


def read_key(settings: TlsSettings) -> KeyMaterial | None:
    """The key and certificates of the key store; None if there is none. Raises TlsError."""
    store = settings.key_store
    if not store.is_set:
        return None
    if store.key is not None:
        assert store.certificates is not None, "checked with the settings"
        return _from_pem(_pem(store.key), _pem(store.certificates), settings.key_password, "ssl.keystore.key")
    assert store.location is not None
    data = _read(store.location, "ssl.keystore.location")
    if store.type == "PEM":
        return _from_pem(data, data, settings.key_password, store.location)
    bundle = _pkcs12(store, data, "ssl.keystore")
    if bundle.key is None or bundle.cert is None:
        raise TlsError(f"The key store {store.location} has no private key with a certificate.")
    from cryptography.hazmat.primitives import serialization

    key = bundle.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = _in_order([bundle.cert.certificate, *(entry.certificate for entry in bundle.additional_certs)])
    return KeyMaterial(
        key, b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in chain), None
    )


def read_trusted(settings: TlsSettings) -> bytes | None:
    """The certificates of the trust store in PEM; None if there is none. Raises TlsError."""
    store = settings.trust_store
    if not store.is_set:
        return None
    if store.certificates is not None:
        source, data = "ssl.truststore.certificates", _pem(store.certificates)
    else:
        assert store.location is not None
        source, data = store.location, _read(store.location, "ssl.truststore.location")
        if store.type != "PEM":
            data = _trusted_of_pkcs12(store, data)
    certificates = certificates_in_pem(data)
    if not certificates:
        raise TlsError(f"The trust store {source} has no certificate (-----BEGIN CERTIFICATE-----).")
    return b"\n".join(certificates) + b"\n"


def certificates_in_pem(data: bytes) -> list[bytes]:
    return [block[0] for block in _PEM_BLOCK.finditer(data) if block[1].endswith(b"CERTIFICATE")]


def _from_pem(key_data: bytes, chain_data: bytes, password: str | None, source: str) -> KeyMaterial:
    keys = [block[0] for block in _PEM_BLOCK.finditer(key_data) if block[1].endswith(b"PRIVATE KEY")]
    chain = certificates_in_pem(chain_data)
    if len(keys) != 1:
        raise TlsError(
            f"{source} must have exactly one private key (-----BEGIN PRIVATE KEY-----), but has {len(keys)}."
        )
    if not chain:
        raise TlsError(f"The key in {source} has no certificate (-----BEGIN CERTIFICATE-----).")
    return KeyMaterial(keys[0] + b"\n", b"\n".join(chain) + b"\n", password)


def _pem(text: str) -> bytes:
    """The PEM bytes of a setting. A properties file may have spaces in place of line breaks."""
    data = text.strip().encode()
    if b"\n" in data:
        return data
    return re.sub(
        rb"-----BEGIN ([A-Z0-9 ]+)-----\s*(.*?)\s*-----END \1-----",
        lambda block: (
            b"-----BEGIN %s-----\n%s\n-----END %s-----\n" % (block[1], block[2].replace(b" ", b"\n"), block[1])
        ),
        data,
        flags=re.DOTALL,
    )


def _read(path: str, key: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_STORE_BYTES_MAX + 1)
    except OSError as error:
        raise TlsError(f"{key} is {path}, which cannot be read: {error.strerror}.", key=key) from None
    if len(data) > _STORE_BYTES_MAX:
        raise TlsError(f"{key} is {path}, which is too large for a key store.", key=key)
    return data


def _pkcs12(store: StoreSettings, data: bytes, prefix: str) -> Any:
    assert store.location is not None
    if data.startswith(_JKS_MAGIC):
        raise TlsError(
            f"{store.location} is a key store in Java's own format, JKS, which cannot be read. Convert it:\n"
            f"  keytool -importkeystore -srckeystore {store.location} -destkeystore {_converted(store.location)} "
            f"-deststoretype PKCS12\nand set {prefix}.location and {prefix}.type=PKCS12.",
            key=f"{prefix}.type",
        )
    if data.lstrip().startswith(b"-----BEGIN"):
        raise TlsError(f"{store.location} is in PEM: set {prefix}.type=PEM.", key=f"{prefix}.type")
    if store.password is None and prefix == "ssl.keystore":
        raise TlsError(f"{prefix}.location is set, so {prefix}.password must be set, too.", key=f"{prefix}.password")
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        return pkcs12.load_pkcs12(data, None if store.password is None else store.password.encode())
    except ValueError:
        raise TlsError(
            f"{store.location} cannot be opened: {prefix}.password is wrong, or it is not a PKCS12 store.",
            key=f"{prefix}.password",
        ) from None


def _trusted_of_pkcs12(store: StoreSettings, data: bytes) -> bytes:
    bundle = _pkcs12(store, data, "ssl.truststore")
    from cryptography.hazmat.primitives.serialization import Encoding

    entries = [*([bundle.cert] if bundle.cert is not None else []), *bundle.additional_certs]
    return b"".join(entry.certificate.public_bytes(Encoding.PEM) for entry in entries)


def _in_order(certificates: Iterable[Any]) -> list[Any]:
    """The chain from the first certificate to its authority, without certificates that are not part of it."""
    leaf, *candidates = certificates
    chain = [leaf]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next(
            (candidate for candidate in candidates if candidate.subject == chain[-1].issuer and candidate not in chain),
            None,
        )
        if issuer is None:
            break
        chain.append(issuer)
    return chain


def _converted(path: str) -> str:
    return str(Path(path).with_suffix(".p12"))
