"""Access to stores over HTTP, for users and between instances: a login, and TLS.

All instances of an application share the settings, so an instance is a client of other instances with its own. An
address that other machines reach needs both, because stores are read without any other check.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.streams.errors import StreamsError

__all__ = ["PREFIX", "QueryAccess"]

PREFIX = "application.server."
_USER = "application.server.basic.auth.user.info"
_INSECURE = "application.server.insecure"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAccess:
    # name:password; empty: there is no login.
    user_info: str = field(default="", repr=False)
    # ssl.* without the prefix; empty: plain HTTP.
    tls: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any], server: str) -> QueryAccess:
        """Raises StreamsError for settings that cannot be used, or that leave stores open to other machines."""
        user_info = str(properties.get(_USER) or "")
        if user_info and not all(user_info.partition(":")[::2]):
            raise StreamsError(f"{_USER} is not NAME:PASSWORD.")
        tls = {
            key.removeprefix(PREFIX): str(value)
            for key, value in properties.items()
            if key.startswith(f"{PREFIX}ssl.") and value is not None
        }
        access = cls(user_info=user_info, tls=tls)
        if tls:
            # A wrong key store is reported before the application starts.
            access.server_context()
        insecure = str(properties.get(_INSECURE, "false")).lower()
        if insecure not in ("true", "false"):
            raise StreamsError(f"{_INSECURE}={insecure!r} is not true or false.")
        host = server.rpartition(":")[0]
        knows_clients = bool(user_info) or tls.get("ssl.client.auth", "").strip().lower() == "required"
        if server and insecure == "false" and not _is_loopback(host) and not (tls and knows_clients):
            raise StreamsError(
                f"application.server={server} can be reached by other machines, and would let them read all stores. "
                f"Set {_USER} and {PREFIX}ssl.keystore.location (with {PREFIX}ssl.truststore.location), or "
                f"{_INSECURE}=true if the network is trusted."
            )
        return access

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def headers(self) -> dict[str, str]:
        """The headers of requests to other instances."""
        return {"authorization": self._credentials} if self.user_info else {}

    def admits(self, authorization: str | None) -> bool:
        """True if the header of a request has the login, or if no login is configured."""
        return not self.user_info or hmac.compare_digest((authorization or "").encode(), self._credentials.encode())

    def server_context(self) -> ssl.SSLContext | None:
        return self._context(is_server=True)

    def client_context(self) -> ssl.SSLContext | None:
        return self._context(is_server=False)

    @property
    def _credentials(self) -> str:
        return f"Basic {base64.b64encode(self.user_info.encode()).decode()}"

    def _context(self, *, is_server: bool) -> ssl.SSLContext | None:
        if not self.tls:
            return None
        from ottla.tls.contexts import client_context, server_context
        from ottla.tls.errors import TlsError
        from ottla.tls.settings import tls_settings

        try:
            return (server_context if is_server else client_context)(tls_settings(self.tls))
        except TlsError as error:
            raise StreamsError(f"{PREFIX}ssl.*: {error}") from error


def _is_loopback(host: str) -> bool:
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
