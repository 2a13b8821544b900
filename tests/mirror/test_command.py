"""`ottla mirror` as a user runs it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.clusters import Cluster, cluster, node_environment
from tests.mirror.flows import create, produce, properties_of, read_all, without_offsets

COMMAND = [sys.executable, "-m", "ottla.cli.main", "mirror"]


def ottla(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False, env=node_environment()
    )


def properties_file(directory: Path, source: Cluster, target: Cluster) -> str:
    file = directory / "mm2.properties"
    lines = [f"{key} = {value}" for key, value in properties_of(source, target, {}).items()]
    file.write_text("\n".join(lines))
    return str(file)


@pytest.mark.parametrize("options", [["--threads"], pytest.param([], marks=pytest.mark.spark, id="spark")])
def test_it_copies_until_it_is_stopped(tmp_path: Path, options: list[str]) -> None:
    with cluster() as source, cluster() as target:
        asyncio.run(create(source, "t", partitions=2))
        asyncio.run(produce(source.bootstrap, "t", range(200)))
        file = properties_file(tmp_path, source, target)
        running = subprocess.Popen(
            [*COMMAND, file, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=node_environment(),
        )
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready a->b\n"
            ours = asyncio.run(read_all(target.bootstrap, "a.t", 200))
        finally:
            running.send_signal(signal.SIGTERM)
            _, errors = running.communicate(timeout=120)
        assert running.returncode == 0, errors
        assert without_offsets(ours) == without_offsets(asyncio.run(read_all(source.bootstrap, "t", 200)))
        (flow,) = json.loads(ottla("status", file, "--json").stdout)
        assert (flow["flow"], flow["records"], flow["partitions"]) == ("a->b", 0, 2)
        assert "a->b" in ottla("status", file).stdout


def test_a_file_that_cannot_work_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\n")
    result = ottla(str(file))
    assert result.returncode == 1
    assert "a->b.enabled = true" in result.stderr
    assert "Traceback" not in result.stderr
