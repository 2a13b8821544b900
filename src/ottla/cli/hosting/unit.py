"""The unit file with which systemd runs a host."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

__all__ = ["tell_systemd", "unit_file"]

# Longer than a node may take to stop: then it is killed by the host, and not by systemd.
STOP_SECONDS = 150


def unit_file(config_file: str, *, user: str | None, nodes: int) -> str:
    name = f"User={user}\n" if user else ""
    return f"""\
[Unit]
Description=Ottla: the nodes of this machine
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
{name}ExecStart={sys.executable} -m ottla.cli.main host --config {os.path.abspath(config_file)}
ExecReload=/bin/kill -HUP $MAINPID
KillMode=mixed
TimeoutStartSec=infinity
TimeoutStopSec={STOP_SECONDS}
Restart=on-failure
RestartSec=5
LimitNOFILE=1048576
# A process and its threads for every node, and some to spare.
TasksMax={64 * (nodes + 1)}
OOMScoreAdjust=-500
NoNewPrivileges=true

[Install]
WantedBy=multi-user.target
"""


def tell_systemd(state: str) -> None:
    """Tells systemd READY=1, RELOADING=1 or STOPPING=1; does nothing if it did not start this process."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
