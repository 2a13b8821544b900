"""The settings of TLS, by Kafka's own names (`ssl.keystore.location` and so on), for listeners and for clients.

The values are texts, as a properties file has them. `tls_settings` checks what can be checked without reading a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.tls.errors import TlsError

__all__ = ["TLS_VERSIONS", "StoreSettings", "TlsSettings", "tls_settings"]

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH: Final = ("none", "requested", "required")
STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")


class StoreSettings(NamedTuple):
    """A key store or trust store: a file, or texts in PEM."""

    type: str
    location: str | None
    password: str | None
    # The private key of a key store; its certificates, or those of a trust store.
    key: str | None
    certificates: str | None

    def __repr__(self) -> str:
        """Without secrets."""
        return f"StoreSettings(type={self.type!r}, location={self.location!r})"

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.key is not None or self.certificates is not None


class TlsSettings(NamedTuple):
    # Of TLS_VERSIONS, in their order.
    versions: tuple[str, ...]
    # In Java's names, or those of OpenSSL; empty for all suites.
    cipher_suites: tuple[str, ...]
    # One of CLIENT_AUTH; for listeners.
    client_auth: str
    # Whether a client compares the certificate of the server with its host name.
    checks_host_name: bool
    key_store: StoreSettings
    key_password: str | None
    trust_store: StoreSettings

    def __repr__(self) -> str:
        """Without secrets."""
        return f"TlsSettings(key_store={self.key_store!r}, trust_store={self.trust_store!r})"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the settings name."""
        return tuple(store.location for store in (self.key_store, self.trust_store) if store.location is not None)


def tls_settings(properties: Mapping[str, str]) -> TlsSettings:
    """Raises TlsError for a value that cannot be used, or values that contradict each other."""
    client_auth = properties.get("ssl.client.auth", "none").strip().lower()
    if client_auth not in CLIENT_AUTH:
        raise TlsError(
            f"ssl.client.auth is {client_auth!r}, but it must be one of {', '.join(CLIENT_AUTH)}.",
            key="ssl.client.auth",
        )
    identification = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if identification not in ("https", ""):
        raise TlsError(
            f"ssl.endpoint.identification.algorithm is {identification!r}, but it must be https, or empty for no check "
            "of the host name.",
            key="ssl.endpoint.identification.algorithm",
        )
    return TlsSettings(
        versions=_versions(properties),
        cipher_suites=_list(properties.get("ssl.cipher.suites", "")),
        client_auth=client_auth,
        checks_host_name=identification == "https",
        key_store=_key_store(properties),
        key_password=_nonblank(properties, "ssl.key.password"),
        trust_store=_trust_store(properties),
    )


def _versions(properties: Mapping[str, str]) -> tuple[str, ...]:
    newest = properties.get("ssl.protocol", "TLSv1.3").strip()
    if newest not in ("TLS", *TLS_VERSIONS):
        raise TlsError(f"ssl.protocol is {newest!r}, but it must be TLSv1.3 or TLSv1.2.", key="ssl.protocol")
    if "ssl.enabled.protocols" not in properties:
        return TLS_VERSIONS[:1] if newest == "TLSv1.2" else TLS_VERSIONS
    enabled = _list(properties["ssl.enabled.protocols"])
    unknown = [name for name in enabled if name not in TLS_VERSIONS]
    if unknown or not enabled:
        raise TlsError(
            f"ssl.enabled.protocols has {', '.join(unknown) or 'no entry'}, but it must have TLSv1.3, TLSv1.2 or both.",
            key="ssl.enabled.protocols",
        )
    return tuple(version for version in TLS_VERSIONS if version in enabled)


def _key_store(properties: Mapping[str, str]) -> StoreSettings:
    store = StoreSettings(
        type=_type(properties, "ssl.keystore.type"),
        location=_nonblank(properties, "ssl.keystore.location"),
        password=_nonblank(properties, "ssl.keystore.password"),
        key=_nonblank(properties, "ssl.keystore.key"),
        certificates=_nonblank(properties, "ssl.keystore.certificate.chain"),
    )
    _check(store, "ssl.keystore", text_key="ssl.keystore.key")
    if (store.key is None) != (store.certificates is None):
        missing = "ssl.keystore.key" if store.key is None else "ssl.keystore.certificate.chain"
        raise TlsError(
            f"ssl.keystore.key and ssl.keystore.certificate.chain belong together: set {missing}.", key=missing
        )
    return store


def _trust_store(properties: Mapping[str, str]) -> StoreSettings:
    store = StoreSettings(
        type=_type(properties, "ssl.truststore.type"),
        location=_nonblank(properties, "ssl.truststore.location"),
        password=_nonblank(properties, "ssl.truststore.password"),
        key=None,
        certificates=_nonblank(properties, "ssl.truststore.certificates"),
    )
    _check(store, "ssl.truststore", text_key="ssl.truststore.certificates")
    return store


def _check(store: StoreSettings, prefix: str, *, text_key: str) -> None:
    has_text = store.key is not None or store.certificates is not None
    if has_text and store.location is not None:
        raise TlsError(f"Only one of {prefix}.location and {text_key} may be set.", key=f"{prefix}.location")
    if has_text and store.type != "PEM":
        raise TlsError(f"{text_key} is in PEM, so {prefix}.type must be PEM.", key=f"{prefix}.type")
    if store.type == "PEM" and store.password is not None:
        hint = ": set ssl.key.password if the private key is encrypted" if prefix == "ssl.keystore" else ""
        raise TlsError(f"A store in PEM has no {prefix}.password{hint}.", key=f"{prefix}.password")


def _type(properties: Mapping[str, str], key: str) -> str:
    text = properties.get(key, "JKS").strip().upper()
    if text not in STORE_TYPES:
        raise TlsError(f"{key} is {text!r}, but it must be PEM or PKCS12.", key=key)
    return text


def _nonblank(properties: Mapping[str, str], key: str) -> str | None:
    text = properties.get(key)
    return None if text is None or not text.strip() else text


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
