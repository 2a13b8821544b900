"""HTTPS of the console, and the names of users with a certificate."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from ottla.console.answers import ApiError
from ottla.tls.certificates import DerError, parse_certificate
from ottla.tls.names import subject_name
from ottla.tls.principals import NoMatchingRule, PrincipalRules

__all__ = ["ConsoleTls", "certified_user"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleTls:
    """PEM files. With authorities, browsers may show a certificate, which is a login."""

    certificate: Path
    key: Path
    authorities: Path | None = None
    principal_rules: PrincipalRules

    def context(self) -> ssl.SSLContext:
        """Raises OSError or ssl.SSLError for files that cannot be used."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.authorities)
        context.load_cert_chain(self.certificate, self.key)
        context.verify_mode = ssl.CERT_NONE if self.authorities is None else ssl.CERT_OPTIONAL
        return context


def certified_user(request: web.Request, tls: ConsoleTls | None) -> str | None:
    """The principal of the certificate that the browser has shown, if it has. Raises ApiError 401."""
    if tls is None or tls.authorities is None or request.transport is None:
        return None
    connection = request.transport.get_extra_info("ssl_object")
    certificate = None if connection is None else connection.getpeercert(binary_form=True)
    if not certificate:
        return None
    try:
        return f"User:{tls.principal_rules.name_of(subject_name(parse_certificate(certificate)))}"
    except (NoMatchingRule, DerError):
        raise ApiError(401, "LOGIN_FAILED", "No rule gives your certificate a name.") from None
