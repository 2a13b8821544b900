"""What a node says about itself."""

from __future__ import annotations

import pytest

from ottla.host.node_process import address


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1:9092"), ("kafka.local", "kafka.local:9092"), ("::1", "[::1]:9092")]
)
def test_addresses_are_shown_as_clients_take_them(host: str, shown: str) -> None:
    assert address(host, 9092) == shown
