"""Free ports in a row, for `ottla host`, whose nodes count up from the port of the first."""

from __future__ import annotations

import socket

from ottla.host.free_ports import HOST, free_ports

__all__ = ["ports_in_a_row"]


def ports_in_a_row(count: int) -> tuple[int, list[socket.socket]]:
    """The first of so many free ports, and the sockets that keep the others for a server that names them."""
    while True:
        (first,) = free_ports(1)
        kept: list[socket.socket] = []
        try:
            for port in range(first + 1, first + count):
                # Without SO_REUSEADDR it fails if another process keeps the port.
                with socket.socket() as test:
                    test.bind((HOST, port))
                reserved = socket.socket()
                kept.append(reserved)
                reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                reserved.bind((HOST, port))
        except (OSError, OverflowError):
            for reserved in kept:
                reserved.close()
        else:
            return first, kept
