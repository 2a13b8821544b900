"""Loopback connections: they need neither pacing nor a limit of unsent bytes.

A listener on a loopback address has only local clients, but uses the machine's congestion control. BBR, which many
servers use for remote clients, paces by timers. That costs a broker more CPU time than all its other work for a
consumer, and the consumer a quarter of its throughput. Reno, which every Linux has, waits only for the receiver. It has
to be set on the listening socket: a connection that began with pacing keeps its timers even if it is set later.
"""

from __future__ import annotations

import contextlib
import socket

__all__ = ["is_loopback", "send_without_pacing"]

_UNPACED = b"reno"


def is_loopback(bound: socket.socket) -> bool:
    """True if the socket is bound to a loopback address."""
    address = str(bound.getsockname()[0]).removeprefix("::ffff:")
    return address == "::1" or address.startswith("127.")


def send_without_pacing(listening: socket.socket) -> None:
    """Selects Reno for the connections that are accepted from this socket."""
    if hasattr(socket, "TCP_CONGESTION"):
        # An administrator may have forbidden Reno: then the machine's default is used.
        with contextlib.suppress(OSError):
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)
