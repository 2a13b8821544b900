"""Ports for servers that are about to start, which nobody else is given before they do.

A port that was free a moment ago may be taken by the time a process has started, or started again: by a server that
asks for any port, or by a client's end of a connection. So a socket stays bound to each port that is given away,
without listening. The system then gives the port to nobody who does not name it, and whoever names it may still listen
there, as long as it sets SO_REUSEADDR, as servers do.
"""

from __future__ import annotations

import os
import socket
from collections import deque

__all__ = ["HOST", "PORTS_KEPT_MAX", "free_ports"]

HOST = "127.0.0.1"

# Of ports that were given away longer ago the socket is closed: by then they are used, or nobody wants them any more.
PORTS_KEPT_MAX = 128

_descriptors: deque[int] = deque()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((HOST, 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    # Descriptors, since a socket that is still open when the interpreter ends is complained about.
    _descriptors.extend(one.detach() for one in sockets)
    while len(_descriptors) > PORTS_KEPT_MAX:
        os.close(_descriptors.popleft())
    return ports
