"""Functions that rules use beyond the standard ones of CEL: `'a@b.org'.isEmail()` and the like."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable
from urllib.parse import urlsplit

__all__ = ["CEL_FUNCTIONS"]

_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_LOCAL_PART = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}")


def _is_hostname(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    return 0 < len(text) <= 253 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdecimal()


def _is_email(text: str) -> bool:
    local, _, host = text.rpartition("@")
    return len(text) <= 254 and _LOCAL_PART.fullmatch(local) is not None and _is_hostname(host)


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc and parts.path)


def _is_uri_reference(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.path) or not parts.fragment


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


CEL_FUNCTIONS: dict[str, Callable[[str], bool]] = {
    "isEmail": _is_email,
    "isHostname": _is_hostname,
    "isIpv4": _parses(ipaddress.IPv4Address),
    "isIpv6": _parses(ipaddress.IPv6Address),
    "isUri": _is_uri,
    "isUriRef": _is_uri_reference,
    "isUuid": _parses(uuid.UUID),
}
