"""Logins with GSSAPI: tickets of Kerberos, from a file of keys or from the user's own cache of tickets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ottla.client.errors import AuthenticationFailed, ClientError
from ottla.sasl.exchange import ClientExchange, SaslError
from ottla.sasl.gssapi_exchange import GssapiClient, keytab_credentials

__all__ = ["KerberosLogin", "kerberos_login_of"]


class KerberosLogin:
    """Without a file of keys the tickets are those of the cache, as `kinit` keeps them."""

    mechanism = "GSSAPI"

    def __init__(self, service: str, *, principal: str | None = None, keytab: str | None = None) -> None:
        self._service = service
        self._principal = principal
        self._keytab = keytab
        self.user = principal or "the user of the ticket cache"

    def __repr__(self) -> str:
        return f"KerberosLogin(service={self._service!r}, principal={self._principal!r})"

    async def exchange(self, host: str) -> ClientExchange:
        try:
            return await asyncio.to_thread(self._begin, host)
        except SaslError as error:
            raise AuthenticationFailed(str(error)) from None

    def _begin(self, host: str) -> ClientExchange:
        return GssapiClient(self._service, host, self._credentials())

    def _credentials(self) -> Any:
        """New credentials for every login, because tickets expire."""
        if self._keytab is None:
            return None
        return keytab_credentials(self._keytab, self._principal, cache=f"ottla-{id(self)}")


def kerberos_login_of(properties: Mapping[str, str], options: Mapping[str, str]) -> KerberosLogin:
    """`options` are those of the login module, under Java's names. Raises ClientError."""
    if find_spec("gssapi") is None:
        raise ClientError("sasl.mechanism=GSSAPI needs the package gssapi: pip install '.[gssapi]' in a checkout.")
    service = properties.get("sasl.kerberos.service.name") or options.get("serviceName")
    if not service:
        raise ClientError("The login with GSSAPI needs sasl.kerberos.service.name, the name of the brokers' service.")
    keytab = options.get("keyTab") or properties.get("sasl.kerberos.keytab")
    principal = options.get("principal") or properties.get("sasl.kerberos.principal")
    return KerberosLogin(service, principal=principal, keytab=keytab)
