"""A private certificate authority for a cluster, and the certificates it signs.

For tests and for clusters on one machine; a company has its own authority. Keys are on the curve P-256: a handshake
costs a tenth of an RSA handshake. Everything is PEM; `KeyPair.store` is a file as `ssl.keystore.type=PEM` reads it.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

__all__ = ["Authority", "KeyPair", "new_authority"]

AUTHORITY_DAYS: Final = 3650
# Kafka's clients accept any time; some systems refuse certificates of more than 825 days.
CERTIFICATE_DAYS: Final = 820
# Clocks of other machines may be behind.
_SKEW: Final = datetime.timedelta(minutes=5)


class KeyPair(NamedTuple):
    """A private key and the chain of its certificate, in PEM."""

    key: str
    certificates: str

    def __repr__(self) -> str:
        """Without the key."""
        return "KeyPair()"

    @property
    def store(self) -> str:
        """The key and the certificates in one text."""
        return self.key + self.certificates

    def pkcs12(self, password: str, *, name: str = "ottla") -> bytes:
        """A store that Java and `ssl.keystore.type=PKCS12` read."""
        leaf, *issuers = x509.load_pem_x509_certificates(self.certificates.encode())
        key = serialization.load_pem_private_key(self.key.encode(), None)
        encryption = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(name.encode(), key, leaf, issuers, encryption)  # type: ignore[arg-type]


class Authority:
    """Signs certificates of nodes and clients."""

    def __init__(self, key: CertificateIssuerPrivateKeyTypes, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def load(cls, key: str, certificate: str) -> Authority:
        """An authority that was saved as `key` and `certificate`."""
        loaded = serialization.load_pem_private_key(key.encode(), None)
        return cls(loaded, x509.load_pem_x509_certificate(certificate.encode()))  # type: ignore[arg-type]

    @property
    def certificate(self) -> str:
        """The certificate that clients and nodes trust, in PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key(self) -> str:
        return _pem_of(self._key)

    def for_node(self, *names: str, common_name: str | None = None, days: float = CERTIFICATE_DAYS) -> KeyPair:
        """A certificate of a server at these host names and addresses, which is also a client of other nodes."""
        subject = _name(("CN", common_name or names[0]))
        return self.issue(subject, names=names, servers=True, valid=_valid(days))

    def for_client(self, common_name: str, *, groups: Sequence[str] = (), days: float = CERTIFICATE_DAYS) -> KeyPair:
        """A certificate of a client, with its groups as organizational units.

        The principal is `User:CN=<common_name>`, or `User:CN=<common_name>,OU=<group>` with a group.
        """
        units = [("OU", group) for group in reversed(groups)]
        return self.issue(_name(*units, ("CN", common_name)), valid=_valid(days))

    def issue(
        self,
        subject: x509.Name,
        *,
        valid: tuple[datetime.datetime, datetime.datetime],
        names: Sequence[str] = (),
        servers: bool = False,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if servers else [])]
        builder = _builder(subject, self._certificate.subject, key.public_key(), valid).add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(n) for n in names]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        chain = certificate.public_bytes(serialization.Encoding.PEM).decode() + self.certificate
        return KeyPair(_pem_of(key), chain)


def new_authority(common_name: str = "Ottla test authority", *, days: float = AUTHORITY_DAYS) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(("CN", common_name))
    builder = _builder(name, name, key.public_key(), _valid(days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
    return Authority(key, builder.sign(key, hashes.SHA256()))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    valid: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
    )


def _valid(days: float) -> tuple[datetime.datetime, datetime.datetime]:
    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(days=days)
    return min(now - _SKEW, end - _SKEW), end


def _name(*attributes: tuple[str, str]) -> x509.Name:
    oids = {"CN": NameOID.COMMON_NAME, "OU": NameOID.ORGANIZATIONAL_UNIT_NAME}
    return x509.Name([x509.NameAttribute(oids[name], value) for name, value in attributes])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem_of(key: object) -> str:
    data: bytes = key.private_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return data.decode()
