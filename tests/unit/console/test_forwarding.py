"""Forwarding headers count only from trusted proxies."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from ottla.console.forwarding import Forwarding, parse_networks


class Transport:
    def __init__(self, address: str) -> None:
        self._address = address

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._address, 4711) if name == "peername" else default


def request_of(remote: str, **headers: str) -> web.Request:
    sent = {"Host": "console.example", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return make_mocked_request("GET", "/", headers=sent, transport=Transport(remote))


def forwarding(*proxies: str, public_url: str | None = None, has_tls: bool = False) -> Forwarding:
    return Forwarding(parse_networks(proxies), public_url=public_url, has_tls=has_tls)


@pytest.mark.parametrize(
    ("remote", "told", "client"),
    [
        ("10.0.0.1", "192.0.2.7", "192.0.2.7"),
        # A client can send the header, too: the entries before the address seen by the proxy are unverified.
        ("10.0.0.1", "203.0.113.9, 192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "192.0.2.7, 10.0.0.2", "192.0.2.7"),
        ("10.0.0.1", "192.0.2.7:50000", "192.0.2.7"),
        ("10.0.0.1", "[2001:db8::1]:50000", "2001:db8::1"),
        ("::ffff:10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("192.0.2.99", "192.0.2.7", "192.0.2.99"),
    ],
)
def test_the_address_of_a_client(remote: str, told: str, client: str) -> None:
    assert forwarding("10.0.0.0/8").client_of(request_of(remote, X_Forwarded_For=told)) == client


def test_https_is_believed_from_trusted_proxies_only() -> None:
    proxied = forwarding("10.0.0.1")
    assert proxied.is_secure(request_of("10.0.0.1", X_Forwarded_Proto="https"))
    assert not proxied.is_secure(request_of("10.0.0.1", X_Forwarded_Proto="http"))
    assert not proxied.is_secure(request_of("10.0.0.1"))
    assert not proxied.is_secure(request_of("10.0.0.2", X_Forwarded_Proto="https"))
    assert not forwarding().is_secure(request_of("127.0.0.1", X_Forwarded_Proto="https"))


def test_https_is_known_by_the_certificate_and_by_the_public_address() -> None:
    assert forwarding(has_tls=True).is_secure(request_of("192.0.2.7"))
    assert forwarding(public_url="https://console.example").is_secure(request_of("192.0.2.7"))
    assert not forwarding(public_url="http://console.example").is_secure(request_of("192.0.2.7"))


def test_the_address_in_the_browser() -> None:
    request = request_of("10.0.0.1", X_Forwarded_Proto="https")
    assert forwarding("10.0.0.1").base_of(request) == "https://console.example"
    assert forwarding().base_of(request) == "http://console.example"
    assert forwarding(public_url="https://public.example/").base_of(request) == "https://public.example"


def test_pages_of_the_public_address_are_own_pages() -> None:
    public = forwarding(public_url="https://public.example")
    assert public.is_own_origin(request_of("10.0.0.1"), "https://public.example")
    assert public.is_own_origin(request_of("10.0.0.1"), "http://console.example")
    assert not public.is_own_origin(request_of("10.0.0.1"), "https://evil.example")
    assert not forwarding().is_own_origin(request_of("10.0.0.1"), "null")


def test_a_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="trusted-proxy 'proxy'"):
        parse_networks(["proxy"])
