"""The unit file with which systemd runs a host."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

__all__ = ["tell_systemd", "unit_file"]

# Longer than a node may take to stop, so that the host and not systemd kills a node that hangs.
STOP_SECONDS = 150


def unit_file(config_file: str, *, user: str | None) -> str:
    name = f"User={user}\n" if user else ""
    return f"""\
[Unit]
Description=Ottla: the nodes of this machine
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
{name}ExecStart={_quoted(sys.executable)} -m ottla.cli.main host --config {_quoted(os.path.abspath(config_file))}
ExecReload=/bin/kill -HUP $MAINPID
KillMode=mixed
TimeoutStartSec=infinity
TimeoutStopSec={STOP_SECONDS}
Restart=on-failure
RestartSec=5
LimitNOFILE=1048576
# A reload may add nodes.
TasksMax=infinity
OOMScoreAdjust=-500
NoNewPrivileges=true

[Install]
WantedBy=multi-user.target
"""


def _quoted(path: str) -> str:
    """A path as a word of a command line of systemd, which expands $ and % also within quotes."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$").replace("%", "%%")
    return f'"{escaped}"'


def tell_systemd(state: str) -> None:
    """Tells systemd READY=1, RELOADING=1 or STOPPING=1; does nothing if it did not start this process."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
