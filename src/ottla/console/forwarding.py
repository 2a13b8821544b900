"""Proxies before the console: the address that a request comes from, and the address that the browser uses.

`X-Forwarded-For` and `X-Forwarded-Proto` count only in requests of the configured proxies, because every client can
send these headers.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from aiohttp import web

__all__ = ["Forwarding", "Network", "parse_networks"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([^:]+):\d+")


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """`10.0.0.1` or `10.0.0.0/8`. Raises ValueError with a sentence."""
    networks = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise ValueError(f"--trusted-proxy {text!r} is no address and no network like 10.0.0.0/8.") from None
    return tuple(networks)


class Forwarding:
    def __init__(self, proxies: Iterable[Network], *, public_url: str | None, has_tls: bool) -> None:
        self._proxies = tuple(proxies)
        self._public_url = None if public_url is None else public_url.rstrip("/")
        self._has_tls = has_tls
        public = urlsplit(public_url or "")
        self._public_origin = public.netloc or None
        self.public_name = public.hostname

    def client_of(self, request: web.Request) -> str | None:
        """The address of the client: the last address that does not belong to a trusted proxy."""
        address = request.remote
        hops = ",".join(request.headers.getall("X-Forwarded-For", ())).split(",")
        while self._is_trusted(address) and hops and (hop := _address(hops.pop())):
            address = hop
        return address

    def is_secure(self, request: web.Request) -> bool:
        """True if the browser uses https, so that the cookie may be sent over https only."""
        if self._has_tls or (self._public_url or "").startswith("https://"):
            return True
        scheme = request.headers.get("X-Forwarded-Proto", "").rpartition(",")[2].strip().lower()
        return scheme == "https" and self._is_trusted(request.remote)

    def base_of(self, request: web.Request) -> str:
        """The address of the console in the browser, without a slash at the end."""
        scheme = "https" if self.is_secure(request) else "http"
        return self._public_url or f"{scheme}://{request.host}"

    def is_own_origin(self, request: web.Request, origin: str) -> bool:
        """True for pages of this console. A proxy may replace the header Host."""
        return urlsplit(origin).netloc in (request.host, self._public_origin)

    def _is_trusted(self, address: str | None) -> bool:
        try:
            parsed = ipaddress.ip_address((address or "").partition("%")[0])
        except ValueError:
            return False
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed.version == network.version and parsed in network for network in self._proxies)


def _address(hop: str) -> str:
    """The address without the port that some proxies add: `10.0.0.1:4711`, `[2001:db8::1]:4711`."""
    text = hop.strip().strip('"')
    match = _WITH_PORT.fullmatch(text)
    return text if match is None else match[1] or match[2]
