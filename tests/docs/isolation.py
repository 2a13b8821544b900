"""A place of its own for a page: its ports are free, and its processes end with it.

Linux namespaces give both to root, and to users where the system allows it. Elsewhere a page runs on the machine
itself, one page at a time, and is skipped while another program listens on one of its ports.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PortTaken", "bring_loopback_up", "exclusive", "namespace_command"]

# Processes in the namespace see their own /proc, and end when the first of them ends.
NAMESPACES = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
PORT = re.compile(r"(?:localhost|127\.0\.0\.1|--port)[: =](\d{4,5})")
DEFAULT_PORTS = (8083, 9092, 9093, 9094)


class PortTaken(Exception):
    """Another program listens on a port of the page."""


@functools.cache
def namespace_command() -> list[str] | None:
    """The command that runs another command in namespaces of its own; None where that is not allowed."""
    if shutil.which("unshare") is None:
        return None
    for command in (NAMESPACES, [*NAMESPACES, "--map-root-user"]):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            program = "from tests.docs.isolation import bring_loopback_up; bring_loopback_up()"
            root = Path(__file__).resolve().parents[2]
            subprocess.run(
                [*command, sys.executable, "-c", program], check=True, capture_output=True, timeout=60, cwd=root
            )
            return command
    return None


def bring_loopback_up() -> None:
    """The loopback interface of a new network namespace is down."""
    up, running = 0x1, 0x40
    get_flags, set_flags = 0x8913, 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, get_flags, struct.pack("16sH14x", b"lo", 0))
        (flags,) = struct.unpack_from("H", answer, 16)
        fcntl.ioctl(probe, set_flags, struct.pack("16sH14x", b"lo", flags | up | running))


@contextlib.contextmanager
def exclusive(text: str) -> Iterator[None]:
    """Without namespaces: holds the lock that all pages share, and raises PortTaken if a port of the page is in use."""
    with (Path(tempfile.gettempdir()) / "ottla-docs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for port in sorted({*DEFAULT_PORTS, *(int(port) for port in PORT.findall(text))}):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    raise PortTaken(
                        f"port {port} of the page is in use, and this system allows no namespaces"
                    ) from None
        yield
