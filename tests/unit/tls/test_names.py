"""Distinguished names as Java prints them, and the rules that map them to principals."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from ottla.tls.authority import new_authority
from ottla.tls.certificates import DerError, parse_certificate
from ottla.tls.errors import TlsError
from ottla.tls.names import canonical_name, subject_name
from ottla.tls.principals import NoMatchingRule, PrincipalRules

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC)


def der(name: x509.Name, names: tuple[str, ...] = ()) -> bytes:
    pair = new_authority().issue(name, valid=(START, END), names=names)
    return x509.load_pem_x509_certificates(pair.certificates.encode())[0].public_bytes(Encoding.DER)


def printed(*relative: list[x509.NameAttribute]) -> str:
    name = x509.Name([x509.RelativeDistinguishedName(attributes) for attributes in relative])
    return subject_name(parse_certificate(der(name)))


def attribute(oid: x509.ObjectIdentifier, value: str, kind: _ASN1Type | None = None) -> x509.NameAttribute:
    return x509.NameAttribute(oid, value, kind)


def test_the_most_significant_part_comes_last() -> None:
    assert (
        printed(
            [attribute(NameOID.COUNTRY_NAME, "DE")],
            [attribute(NameOID.STATE_OR_PROVINCE_NAME, "Bayern")],
            [attribute(NameOID.LOCALITY_NAME, "München")],
            [attribute(NameOID.ORGANIZATION_NAME, "Example GmbH")],
            [attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "Data")],
            [attribute(NameOID.COMMON_NAME, "alice")],
        )
        == "CN=alice,OU=Data,O=Example GmbH,L=München,ST=Bayern,C=DE"
    )


# What Java 17 prints for the same certificates.
@pytest.mark.parametrize(
    ("oid", "value", "text"),
    [
        (NameOID.COMMON_NAME, 'a,b=c+d<e>f#g;h"i\\j', 'CN=a\\,b\\=c\\+d\\<e\\>f\\#g\\;h\\"i\\\\j'),
        (NameOID.COMMON_NAME, "  two  spaces  ", "CN=\\ \\ two  spaces\\ \\ "),
        (NameOID.EMAIL_ADDRESS, "a@b.c", "1.2.840.113549.1.9.1=#16056140622e63"),
        (NameOID.SERIAL_NUMBER, "7", "2.5.4.5=#130137"),
        (NameOID.USER_ID, "u1", "UID=u1"),
        (NameOID.DOMAIN_COMPONENT, "example", "DC=example"),
        (NameOID.STREET_ADDRESS, "Road 1", "STREET=Road 1"),
        (NameOID.TITLE, "Dr", "2.5.4.12=#0c024472"),
    ],
)
def test_values(oid: x509.ObjectIdentifier, value: str, text: str) -> None:
    kind = _ASN1Type.PrintableString if oid == NameOID.SERIAL_NUMBER else None
    assert printed([attribute(oid, value, kind)]) == text


def test_several_attributes_of_one_part() -> None:
    text = printed([attribute(NameOID.COMMON_NAME, "a"), attribute(NameOID.USER_ID, "b")])
    assert text in ("CN=a+UID=b", "UID=b+CN=a")


def test_names_and_time_of_a_certificate() -> None:
    name = x509.Name([attribute(NameOID.COMMON_NAME, "node")])
    certificate = parse_certificate(der(name, ("localhost", "127.0.0.1", "::1")))
    assert certificate.alternative_names == {(0x82, b"localhost"), (0x87, b"\x7f\0\0\1"), (0x87, bytes(15) + b"\1")}
    assert certificate.not_after == "20360101000000Z"


def test_names_are_compared_without_case_and_repeated_spaces() -> None:
    first = parse_certificate(der(x509.Name([attribute(NameOID.COMMON_NAME, "My  Node")])))
    second = parse_certificate(der(x509.Name([attribute(NameOID.COMMON_NAME, "my node")])))
    third = parse_certificate(der(x509.Name([attribute(NameOID.COMMON_NAME, "mynode")])))
    assert canonical_name(first) == canonical_name(second) != canonical_name(third)


def test_bytes_that_are_no_certificate() -> None:
    whole = der(x509.Name([attribute(NameOID.COMMON_NAME, "node")]))
    for cut in range(len(whole)):
        with pytest.raises(DerError):
            parse_certificate(whole[:cut])


NAME = "CN=Alice,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?), *OU=(.*?),.*$/$1@$2/U", "ALICE@SERVICEUSERS"),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT", "alice"),
        ("RULE:^CN=nobody$/x/\nDEFAULT", NAME),
        ("RULE:^CN=(.*?),.*$/\\$1-$2/", "$1-$2"),
    ],
)
def test_rules(rules: str, name: str) -> None:
    assert PrincipalRules(rules).name_of(NAME) == name


def test_a_name_without_a_rule_is_refused() -> None:
    with pytest.raises(NoMatchingRule):
        PrincipalRules("RULE:^CN=bob$/bob/").name_of(NAME)


@pytest.mark.parametrize("rules", ["default", "RULE:", "RULE:a", "RULE:(/x/", "RULE:a/b/L DEFAULT", "DEFAULTS"])
def test_rules_that_cannot_be_read(rules: str) -> None:
    with pytest.raises(TlsError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)
