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
from tests.mirror.flows import (
    create,
    has_no_lag,
    mirroring,
    produce,
    properties_of,
    read_all,
    until,
    without_offsets,
)

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


@pytest.mark.parametrize("options", [["--threads"], pytest.param([], marks=pytest.mark.slow, id="spark")])
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


def test_clients_are_switched_and_brought_back(tmp_path: Path) -> None:
    with cluster() as source, cluster() as target:
        asyncio.run(create(source, "t", partitions=1))
        asyncio.run(produce(source.bootstrap, "t", range(10)))
        file = properties_file(tmp_path, source, target)
        asyncio.run(copy_all(source, target))
        asyncio.run(produce(source.bootstrap, "t", range(10, 13)))
        looked = ottla("failover", file, "--dry-run", "--flow", "a->b")
        assert looked.returncode == 0, looked.stderr
        assert "Written at a and not copied:" in looked.stdout
        assert ["t", "0", "10", "13", "3"] in [line.split() for line in looked.stdout.splitlines()]
        refused = ottla("failover", file)
        assert refused.returncode == 1
        assert "add --yes to confirm" in refused.stderr
        switched = ottla("failover", file, "--yes")
        assert switched.returncode == 0, switched.stderr
        assert "a->b is failed over." in switched.stdout
        assert f"bootstrap.servers = {target.bootstrap}" in switched.stdout
        (flow,) = json.loads(ottla("status", file, "--json").stdout)
        assert flow["state"] == "failed over"
        started = ottla(file, "--threads")
        assert started.returncode == 1
        assert "it was failed over" in started.stderr
        back = ottla("failback", file, "--yes", "--json")
        assert back.returncode == 0, back.stderr
        report = json.loads(back.stdout)
        assert report["phase"] == "running"
        assert [partition["endOffset"] for partition in report["notCopied"]] == [13]
        assert len(asyncio.run(read_all(target.bootstrap, "a.t", 13))) == 13
        assert ottla("failback", file, "--yes").returncode == 1
        unknown = ottla("failover", file, "--flow", "b->a")
        assert "has no flow b->a; it has a->b" in unknown.stderr


async def copy_all(source: Cluster, target: Cluster) -> None:
    async with mirroring(source, target) as mirror:
        await until(lambda: has_no_lag(mirror.settings))
