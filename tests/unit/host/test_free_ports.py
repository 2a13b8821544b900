"""Ports that stay reserved for their recipient."""

from __future__ import annotations

import errno
import socket

import pytest

from ottla.host import free_ports as module
from ottla.host.free_ports import HOST, PORTS_KEPT_MAX, free_ports
from ottla.host.listener import SocketOptions, bind


def test_a_reserved_port_is_only_for_the_process_that_names_it() -> None:
    first, second = free_ports(2)
    assert first != second
    for _ in range(2):
        # A node binds its port, and binds it again after a restart.
        bind(HOST, first, SocketOptions()).close()
    # Another server could only get the port by naming it and setting SO_REUSEPORT.
    with socket.socket() as other, pytest.raises(OSError) as refused:
        other.bind((HOST, second))
    assert refused.value.errno == errno.EADDRINUSE


def test_only_so_many_ports_are_kept() -> None:
    for _ in range(3):
        assert len(set(free_ports(PORTS_KEPT_MAX // 2))) == PORTS_KEPT_MAX // 2
    assert len(module._descriptors) == PORTS_KEPT_MAX
