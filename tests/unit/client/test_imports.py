"""A program that uses the clients loads nothing of a node, and Arrow only for columns."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import ottla.client.admin, ottla.client.blocking, ottla.client.config, ottla.client.consumer
import ottla.client.parallel, ottla.client.producer, ottla.client.retries, ottla.client.share
print(*sorted(sys.modules))
"""
NODE = (
    "broker",
    "coordinator",
    "host",
    "metadata",
    "quorum",
    "replica",
    "sim",
    "storage",
    "testing",
    "spark",
    "connect",
)


def test_clients_load_no_broker_and_no_arrow() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert [name for name in loaded if name.startswith(tuple(f"ottla.{part}" for part in NODE))] == []
    assert {"pyarrow", "numpy", "pandas", "pyspark"} & set(loaded) == set()


def test_columns_without_their_library_say_what_to_install() -> None:
    program = "import sys; sys.modules['pyarrow'] = None; import ottla.client.columns.reading"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "MissingLibrary: Columns need pyarrow: pip install 'ottla[columns]'." in done.stderr
