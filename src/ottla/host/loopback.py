"""Connections that do not leave the machine: nothing is to be paced or held back for the sake of a network.

A listener on a loopback address has no other clients. The machine's congestion control does not know that: BBR, which
many servers have for clients far away, sends by timers at the pace that it has measured, and that costs a broker more
CPU time than all else it does for a consumer, and the consumer a quarter of its speed. Reno, which every Linux has,
waits for nothing but the receiver. It has to be chosen for the listening socket: a connection that began with pacing
keeps its timers, whatever is chosen for it later.
"""

from __future__ import annotations

import contextlib
import socket

__all__ = ["is_loopback", "send_without_pacing"]

_UNPACED = b"reno"


def is_loopback(bound: socket.socket) -> bool:
    """Whether only this machine can reach the address that the socket is bound to."""
    address = str(bound.getsockname()[0]).removeprefix("::ffff:")
    return address == "::1" or address.startswith("127.")


def send_without_pacing(listening: socket.socket) -> None:
    """For the connections that are accepted from it."""
    if hasattr(socket, "TCP_CONGESTION"):
        # An administrator may have forbidden it: then they are sent to as all others are.
        with contextlib.suppress(OSError):
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)
