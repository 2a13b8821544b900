"""Consecutive free ports, for `ottla host`, whose nodes count up from the port of the first node."""

from __future__ import annotations

import socket

from ottla.host.free_ports import HOST, free_ports

__all__ = ["ports_in_a_row"]


def ports_in_a_row(count: int) -> tuple[int, list[socket.socket]]:
    """The first of `count` consecutive free ports, and the sockets that reserve the other ports for a server."""
    while True:
        (first,) = free_ports(1)
        sockets: list[socket.socket] = []
        try:
            for port in range(first + 1, first + count):
                # Without SO_REUSEADDR the bind fails if another process has the port.
                with socket.socket() as test:
                    test.bind((HOST, port))
                reserved = socket.socket()
                sockets.append(reserved)
                reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                reserved.bind((HOST, port))
        except (OSError, OverflowError):
            for reserved in sockets:
                reserved.close()
        else:
            return first, sockets
