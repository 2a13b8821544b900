"""Addresses as text, compared with the standard library."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.addresses import address_bytes


@given(st.ip_addresses())
def test_every_address_is_read_as_the_standard_library_reads_it(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert address_bytes(str(address)) == address.packed
    assert address_bytes(address.exploded) == address.packed


def test_a_zone_is_left_out() -> None:
    assert address_bytes("fe80::1%eth0") == ipaddress.ip_address("fe80::1").packed


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2.3", "1.2.3.256", "1.2.3.x", "1.2.3.4.5", "::1::2", "1:2:3", "12345::", "g::", "localhost", ":"],
)
def test_what_is_no_address_is_told(text: str) -> None:
    assert address_bytes(text) is None
