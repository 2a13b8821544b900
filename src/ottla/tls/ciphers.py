"""Cipher suites: Java's names, as in Kafka's files, translated to OpenSSL's names.

The suites of TLS 1.3 cannot be chosen with Python's `ssl`. A list without any of them turns TLS 1.3 off, as in Java,
and a list of them alone turns TLS 1.2 off. A connection that has negotiated a suite outside the list is refused
(`is_allowed`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ottla.tls.errors import TlsError

__all__ = ["is_allowed", "openssl_ciphers", "versions_of"]

_TLS_13 = re.compile(r"TLS_(AES|CHACHA20|SM4)_[A-Z0-9_]+")
_JAVA = re.compile(r"TLS_([A-Z0-9_]+?)_WITH_([A-Z0-9_]+)_(SHA\d*|CCM\d*)")


def openssl_ciphers(suites: Sequence[str]) -> str:
    """OpenSSL's list of the suites before TLS 1.3; empty if there are none."""
    return ":".join(_openssl_name(suite) for suite in suites if not _TLS_13.fullmatch(suite))


def versions_of(suites: Sequence[str], versions: Sequence[str]) -> tuple[str, ...]:
    """The versions of TLS for which the list has a suite."""
    if not suites:
        return tuple(versions)
    has_13 = any(_TLS_13.fullmatch(suite) for suite in suites)
    has_12 = any(not _TLS_13.fullmatch(suite) for suite in suites)
    usable = tuple(version for version in versions if (has_13 if version == "TLSv1.3" else has_12))
    if not usable:
        raise TlsError(
            f"ssl.cipher.suites has no suite for {', '.join(versions)}, the enabled protocols.", key="ssl.cipher.suites"
        )
    return usable


def is_allowed(negotiated: str, suites: Sequence[str]) -> bool:
    """Whether a connection may use the suite, by OpenSSL's name."""
    return not suites or negotiated in suites or negotiated in {_openssl_name(suite) for suite in suites}


def _openssl_name(suite: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256`."""
    match = _JAVA.fullmatch(suite)
    if match is None:
        return suite
    exchange, cipher, digest = match.groups()
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "")
    if cipher.startswith("CHACHA20"):
        return "-".join([*exchange.split("_"), "CHACHA20", "POLY1305"])
    # A plain RSA key exchange has no name in OpenSSL.
    parts = [] if exchange == "RSA" else exchange.split("_")
    return "-".join([*parts, *cipher.split("_"), digest])
