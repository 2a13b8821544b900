"""Reserves free ports for servers that are about to start.

A port that was free a moment ago may be taken before a process has started or restarted: by a server that binds port 0,
or by the client's end of a connection. So a socket stays bound to each reserved port without listening. The system then
assigns the port to no other socket, but a server that names the port and sets SO_REUSEADDR, as servers do, can still
listen there.
"""

from __future__ import annotations

import os
import socket
from collections import deque

__all__ = ["HOST", "PORTS_KEPT_MAX", "free_ports"]

HOST = "127.0.0.1"

# Sockets of older reservations are closed: by then the ports are in use or no longer needed.
PORTS_KEPT_MAX = 128

_descriptors: deque[int] = deque()


def free_ports(count: int) -> list[int]:
    """Distinct free ports of the loopback address."""
    sockets = [socket.socket() for _ in range(count)]
    for bound in sockets:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, 0))
    ports = [int(bound.getsockname()[1]) for bound in sockets]
    # Descriptors, because a socket that is open when the interpreter ends causes a ResourceWarning.
    _descriptors.extend(bound.detach() for bound in sockets)
    while len(_descriptors) > PORTS_KEPT_MAX:
        os.close(_descriptors.popleft())
    return ports
