"""The modules that a node loads when it starts."""

from __future__ import annotations

import subprocess
import sys

# Each module costs milliseconds at the start and megabytes in every node, and a node does not need it.
UNWANTED = (
    "argparse",
    "click",
    "dataclasses",
    "difflib",
    "email",
    "http",
    "importlib.metadata",
    "rich",
    "unittest",
    "urllib.request",
    "xml",
    "zipfile",
)


def test_a_node_imports_nothing_large() -> None:
    modules = "ottla.cli.main, ottla.cli.start_options, ottla.cli.up, ottla.host.node_process"
    program = f"import sys, {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ottla.host.node_process" in loaded
    assert not loaded.intersection(UNWANTED)


def test_taking_a_port_brings_in_no_international_names() -> None:
    program = (
        "import sys; from ottla.host.listener import SocketOptions, bind; "
        "bind('127.0.0.1', 0, SocketOptions()).close(); bind('localhost', 0, SocketOptions()).close(); "
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ottla.host.listener" in loaded
    assert not loaded.intersection(("encodings.idna", "stringprep"))
