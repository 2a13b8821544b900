"""Distinguished names as Java prints them (RFC 2253): principals and ACLs of Kafka are compared with this text.

Only nine attributes have a name in this form. The others, such as an e-mail address, are printed as their number and
their encoded value in hexadecimal digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.tls.certificates import Attribute, Certificate

__all__ = ["canonical_name", "subject_name", "subject_values"]

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# PrintableString, UTF8String, T61String, IA5String, GeneralString, BMPString, UniversalString.
_TEXT_TAGS: Final = frozenset((0x13, 0x0C, 0x14, 0x16, 0x1B, 0x1E, 0x1C))
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def subject_name(certificate: Certificate) -> str:
    """The subject as Java's `X500Principal.getName()` prints it: the most significant part comes last."""
    return ",".join("+".join(map(_printed, attributes)) for attributes in reversed(certificate.subject))


def subject_values(certificate: Certificate, name: str) -> tuple[str, ...]:
    """The values of an attribute such as OU in the subject, in the order of the certificate, without escapes."""
    values = [
        _text(attribute)
        for attributes in certificate.subject
        for attribute in attributes
        if _NAMES.get(attribute.oid) == name
    ]
    return tuple(dict.fromkeys(value for value in values if value.strip()))


def canonical_name(certificate: Certificate) -> tuple[frozenset[tuple[str, str]], ...]:
    """The subject for comparisons: case and repeated spaces do not count."""
    return tuple(
        frozenset((attribute.oid, " ".join(_text(attribute).lower().split())) for attribute in attributes)
        for attributes in certificate.subject
    )


def _printed(attribute: Attribute) -> str:
    name = _NAMES.get(attribute.oid)
    if name is None or attribute.tag not in _TEXT_TAGS:
        return f"{name or attribute.oid}=#{attribute.encoded.hex()}"
    return f"{name}={_escaped(_text(attribute))}"


def _text(attribute: Attribute) -> str:
    # Java takes every kind of text for UTF-8 here.
    return attribute.value.decode("utf-8", "replace")


def _escaped(text: str) -> str:
    escaped = "".join("\\00" if char == "\0" else "\\" + char if char in _ESCAPED else char for char in text)
    inner = escaped.strip(" \r")
    lead = len(escaped) - len(escaped.lstrip(" \r"))
    before, after = escaped[:lead], escaped[lead + len(inner) :]
    return "".join("\\" + char for char in before) + inner + "".join("\\" + char for char in after)
