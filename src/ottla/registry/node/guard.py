"""Authentication and authorization of clients: every request passes the guard before its handler.

A client authenticates with a password, a token or its certificate. An instance that forwards a request of a client with
a certificate names the client (`X-Forward-Principal`); the header counts from instances and super users only.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import time
from pathlib import Path
from typing import Any

from aiohttp import web

from ottla.registry.core.access import ANONYMOUS, AccessRules, Operation, access_denied
from ottla.registry.core.contexts import canonical_subject
from ottla.registry.core.errors import RegistryError
from ottla.registry.node.passwords import Passwords
from ottla.registry.node.tokens import BearerTokens
from ottla.tls.certificates import DerError, parse_certificate
from ottla.tls.names import subject_name
from ottla.tls.principals import NoMatchingRule, PrincipalRules

__all__ = [
    "FORWARDED",
    "FORWARDED_PRINCIPAL",
    "Guard",
    "ensure_allowed",
    "is_allowed",
    "own_principals",
    "principal_of",
]

logger = logging.getLogger(__name__)
audit_logger = logging.getLogger("ottla.registry.audit")

FORWARDED = "X-Forward"
FORWARDED_PRINCIPAL = "X-Forward-Principal"
_RELOAD_SECONDS = 5.0
_PRINCIPAL = "principal"
_RULES = "access_rules"
_CHANGES = ("POST", "PUT", "DELETE", "PATCH")
_REFUSALS = (401, 403, 429)


class Guard:
    """Without passwords, tokens and rules every request is accepted."""

    def __init__(
        self,
        *,
        passwords: Passwords | None = None,
        tokens: BearerTokens | None = None,
        rules_file: Path | None = None,
        principal_rules: PrincipalRules | None = None,
        own_principals: frozenset[str] = frozenset(),
    ) -> None:
        self._passwords = passwords
        self._tokens = tokens
        self._rules_file = rules_file
        self._principal_rules = principal_rules or PrincipalRules()
        self._own_principals = own_principals
        self._rules: AccessRules | None = None
        self._seen: tuple[int, int, int] | None = None
        self._reloading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises ValueError for keys or rules that cannot be read."""
        if self._tokens is not None:
            try:
                await self._tokens.load()
            except (OSError, ValueError) as error:
                raise ValueError(f"The keys of tokens cannot be read: {error}.") from error
        if self._rules_file is not None:
            try:
                await asyncio.to_thread(self._load, self._rules_file)
            except (OSError, ValueError) as error:
                raise ValueError(f"The rules of access in {self._rules_file} cannot be read: {error}.") from error
            self._reloading = asyncio.ensure_future(self._reload(self._rules_file))

    async def stop(self) -> None:
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)

    async def admit(self, request: web.Request) -> None:
        """Stores the client's principal and the current rules in the request. Raises RegistryError 401 or 429."""
        request[_PRINCIPAL] = await self._principal(request)
        request[_RULES] = self._rules

    def audit(self, request: web.Request, status: int) -> None:
        """A line for every change and every refused request."""
        if request.method in _CHANGES or status in _REFUSALS:
            entry = {
                "time": int(time.time() * 1000),
                "principal": request.get(_PRINCIPAL),
                "client": request.remote,
                "method": request.method,
                "path": request.rel_url.raw_path_qs,
                "status": status,
                "forwarded": FORWARDED in request.headers,
            }
            audit_logger.info(json.dumps(entry, ensure_ascii=False))

    async def _principal(self, request: web.Request) -> str:
        certified = self._certified(request)
        if self._passwords is None and self._tokens is None:
            named = request.headers.get(FORWARDED_PRINCIPAL)
            if named and FORWARDED in request.headers and self._is_instance(certified):
                return named
            return certified or ANONYMOUS
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        user = None
        if scheme.lower() == "basic" and self._passwords is not None:
            user = await self._passwords.user_of(credentials.strip(), request.remote or "")
        elif scheme.lower() == "bearer" and self._tokens is not None:
            user = await self._tokens.user_of(credentials.strip())
        if user is None:
            raise RegistryError(401, "Unauthorized: the user, the password or the token is wrong.")
        return f"User:{user}"

    def _certified(self, request: web.Request) -> str | None:
        """The principal of the client's certificate."""
        connection = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        certificate = None if connection is None else connection.getpeercert(binary_form=True)
        if not certificate:
            return None
        try:
            return _certificate_principal(certificate, self._principal_rules)
        except (NoMatchingRule, DerError):
            raise RegistryError(401, "Unauthorized: no rule gives the certificate a name.") from None

    def _is_instance(self, certified: str | None) -> bool:
        super_users = frozenset() if self._rules is None else self._rules.super_users
        return certified is not None and (certified in self._own_principals or certified in super_users)

    def _load(self, path: Path) -> None:
        stat = os.stat(path)
        self._rules = AccessRules.parse(path.read_text(encoding="utf-8"))
        self._seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)

    async def _reload(self, path: Path) -> None:
        """If the file cannot be read, the earlier rules stay in force."""
        while True:
            await asyncio.sleep(_RELOAD_SECONDS)
            try:
                stat = await asyncio.to_thread(os.stat, path)
                if (stat.st_ino, stat.st_mtime_ns, stat.st_size) != self._seen:
                    await asyncio.to_thread(self._load, path)
                    logger.info("The rules of access in %s are in force", path)
            except (OSError, ValueError) as error:
                logger.warning("The rules of access in %s cannot be read, so they stay as they were: %s", path, error)


def own_principals(certificate: Path, rules: PrincipalRules) -> frozenset[str]:
    """The principal of the instance's own certificate: other instances may have the same. Raises OSError."""
    text = certificate.read_text(encoding="ascii", errors="replace")
    begin = text.index(ssl.PEM_HEADER)
    end = text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
    try:
        return frozenset({_certificate_principal(ssl.PEM_cert_to_DER_cert(text[begin:end]), rules)})
    except (NoMatchingRule, DerError):
        return frozenset()


def _certificate_principal(certificate: bytes, rules: PrincipalRules) -> str:
    """Raises NoMatchingRule or DerError."""
    return f"User:{rules.name_of(subject_name(parse_certificate(certificate)))}"


def principal_of(request: web.Request) -> str:
    return str(request.get(_PRINCIPAL) or ANONYMOUS)


def is_allowed(request: web.Request, operation: Operation, name: str = "") -> bool:
    rules: Any = request.get(_RULES)
    if rules is None:
        return True
    return bool(rules.allows(principal_of(request), operation, canonical_subject(name)))


def ensure_allowed(request: web.Request, operation: Operation, name: str = "") -> None:
    """Raises RegistryError 40301."""
    if not is_allowed(request, operation, name):
        raise access_denied(operation, name)
