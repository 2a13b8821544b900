"""Key stores, and the errors for unusable key stores."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from ottla.tls.authority import Authority, KeyPair, new_authority
from ottla.tls.ciphers import is_allowed, openssl_ciphers, versions_of
from ottla.tls.contexts import check_own_trust, client_context, server_context
from ottla.tls.errors import TlsError
from ottla.tls.settings import tls_settings


@pytest.fixture(scope="module")
def authority() -> Authority:
    return new_authority()


@pytest.fixture(scope="module")
def pair(authority: Authority) -> KeyPair:
    return authority.for_node("localhost")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """Both ends in memory; returns the client's."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=name)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    is_done = {near: False, far: False}
    for end in (near, far) * 4:
        if not is_done[end]:
            try:
                end.do_handshake()
                is_done[end] = True
            except ssl.SSLWantReadError:
                pass
    assert all(is_done.values())
    return near


def encrypted_key(pair: KeyPair, password: str) -> str:
    key = serialization.load_pem_private_key(pair.key.encode(), None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def trusting(authority: Authority) -> ssl.SSLContext:
    properties = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.certificate}
    return client_context(tls_settings(properties))


def test_texts_in_pem(authority: Authority, pair: KeyPair) -> None:
    for key, chain in (
        (pair.key, pair.certificates),
        # As one line of a properties file.
        (pair.key.replace("\n", " "), pair.certificates.replace("\n", " ")),
    ):
        properties = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
        shake_hands(server_context(tls_settings(properties)), trusting(authority))


def test_an_encrypted_key(authority: Authority, pair: KeyPair, tmp_path: Path) -> None:
    path = tmp_path / "node.pem"
    path.write_text(encrypted_key(pair, "a secret") + pair.certificates)
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    shake_hands(server_context(tls_settings({**properties, "ssl.key.password": "a secret"})), trusting(authority))
    with pytest.raises(TlsError, match=r"is encrypted: set ssl\.key\.password"):
        server_context(tls_settings(properties))
    with pytest.raises(TlsError, match="cannot be decrypted") as raised:
        server_context(tls_settings({**properties, "ssl.key.password": "another"}))
    assert "another" not in raised.value.message


def test_pkcs12(authority: Authority, pair: KeyPair, tmp_path: Path) -> None:
    path = tmp_path / "node.p12"
    path.write_bytes(pair.pkcs12("changeit"))
    properties = {"ssl.keystore.location": str(path), "ssl.keystore.password": "changeit"}
    # Java opens a PKCS12 store although the type is JKS, which is the default.
    for kind in ("PKCS12", "JKS"):
        shake_hands(server_context(tls_settings({**properties, "ssl.keystore.type": kind})), trusting(authority))
    trusted = {"ssl.truststore.location": str(path), "ssl.truststore.password": "changeit"}
    client = client_context(tls_settings(trusted))
    shake_hands(server_context(tls_settings(properties)), client)
    with pytest.raises(TlsError, match=r"ssl\.keystore\.password is wrong"):
        server_context(tls_settings({**properties, "ssl.keystore.password": "wrong"}))
    with pytest.raises(TlsError, match=r"ssl\.keystore\.password must be set"):
        server_context(tls_settings({"ssl.keystore.location": str(path)}))


def test_jks_is_refused_with_the_line_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "node.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    with pytest.raises(TlsError) as raised:
        server_context(tls_settings({"ssl.keystore.location": str(path), "ssl.keystore.password": "changeit"}))
    assert f"keytool -importkeystore -srckeystore {path} -destkeystore {tmp_path}/node.p12" in raised.value.message
    assert "changeit" not in raised.value.message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs a private key and a certificate"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.type must be PEM"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "x"}, "set ssl.keystore.certificate.chain"),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "y"},
            "must have exactly one private key",
        ),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/nowhere"}, "cannot be read: No such file"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.password": "x"}, "has no ssl.keystore.password"),
        ({"ssl.keystore.type": "BKS"}, "must be PEM or PKCS12"),
        ({"ssl.client.auth": "maybe"}, "must be one of none, requested, required"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "has TLSv1.1"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be https"),
        (
            {"ssl.truststore.location": "a", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": "b"},
            "Only one of ssl.truststore.location and ssl.truststore.certificates",
        ),
    ],
)
def test_settings_that_cannot_be_used(given: dict[str, str], words: str) -> None:
    with pytest.raises(TlsError) as raised:
        server_context(tls_settings(given))
    assert words in raised.value.message


def test_a_key_of_another_certificate(authority: Authority, pair: KeyPair) -> None:
    other = authority.for_node("localhost")
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": other.key,
        "ssl.keystore.certificate.chain": pair.certificates,
    }
    with pytest.raises(TlsError, match="does not belong to its first certificate"):
        server_context(tls_settings(properties))


@pytest.mark.parametrize(
    ("protocols", "suites", "version", "cipher"),
    [
        ("TLSv1.2", "", "TLSv1.2", None),
        (None, "", "TLSv1.2", None),
        ("TLSv1.3", "", "TLSv1.3", None),
        ("TLSv1.2,TLSv1.3", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLSv1.2,TLSv1.3", "TLS_AES_256_GCM_SHA384", "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_versions_and_cipher_suites(
    authority: Authority, pair: KeyPair, protocols: str | None, suites: str, version: str, cipher: str | None
) -> None:
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pair.key,
        "ssl.keystore.certificate.chain": pair.certificates,
        "ssl.cipher.suites": suites,
        **({"ssl.protocol": "TLSv1.2"} if protocols is None else {"ssl.enabled.protocols": protocols}),
    }
    client = shake_hands(server_context(tls_settings(properties)), trusting(authority))
    assert client.version() == version
    if cipher is not None:
        negotiated = client.cipher()
        assert negotiated is not None
        assert negotiated[0] == cipher
        assert is_allowed(cipher, [suites])


def test_suites_of_java_in_the_words_of_openssl() -> None:
    assert openssl_ciphers(["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"]) == "ECDHE-RSA-CHACHA20-POLY1305"
    assert openssl_ciphers(["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_AES_128_GCM_SHA256"]) == "AES128-SHA"
    assert not is_allowed("TLS_AES_128_GCM_SHA256", ["TLS_AES_256_GCM_SHA384"])
    with pytest.raises(TlsError, match="no suite for TLSv1"):
        versions_of(["TLS_AES_256_GCM_SHA384"], ["TLSv1.2"])


def test_an_intermediate_authority_can_be_trusted_alone(authority: Authority, pair: KeyPair) -> None:
    """As in Java: the certificate of the node itself in the trust store is enough."""
    leaf = pair.certificates[: pair.certificates.index("-----END CERTIFICATE-----") + 26]
    properties = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": leaf}
    server = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pair.key,
        "ssl.keystore.certificate.chain": pair.certificates,
    }
    shake_hands(server_context(tls_settings(server)), client_context(tls_settings(properties)))


def test_a_node_must_trust_its_own_kind(authority: Authority, pair: KeyPair) -> None:
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pair.key,
        "ssl.keystore.certificate.chain": pair.certificates,
        "ssl.truststore.type": "PEM",
        "ssl.client.auth": "required",
    }
    check_own_trust(tls_settings({**properties, "ssl.truststore.certificates": authority.certificate}))
    with pytest.raises(TlsError, match="Other nodes would refuse the certificate"):
        check_own_trust(tls_settings({**properties, "ssl.truststore.certificates": new_authority().certificate}))


def test_secrets_are_not_printed(pair: KeyPair) -> None:
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.key": pair.key, "ssl.keystore.certificate.chain": "c"}
    settings = tls_settings({**properties, "ssl.key.password": "a secret"})
    for value in (settings, settings.key_store, pair):
        assert "a secret" not in repr(value)
        assert "PRIVATE" not in repr(value)
