"""The properties file and the signals of a host."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.cli.hosting import run
from ottla.cli.hosting.machine import Machine
from ottla.cli.hosting.plan import HostError, HostPlan

# The limit is for a broken host only.
LIMIT_SECONDS = 10.0


async def no_page(_: str) -> str:
    return ""


def test_a_host_that_reads_its_file_again_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def whole() -> None:
        stopped, reload, reloads = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def endless(_: str, __: Machine) -> None:
            reloads.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(run, "_reload", endless)
        reload.set()
        machine = Machine(HostPlan((), ""), "", read_page=no_page)
        async with asyncio.timeout(LIMIT_SECONDS):
            serving = asyncio.create_task(run._serve("", machine, stopped, reload))
            await reloads.wait()
            stopped.set()
            await serving

    asyncio.run(whole())


def test_references_in_the_keys_that_nodes_share_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "host.properties"
    settings = {
        "process.roles": "broker",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:${env:HOST_TEST_PORT}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "100@127.0.0.1:9093",
        "log.dirs": "${env:HOST_TEST_DATA}",
        "max.connections": "${env:HOST_TEST_CONNECTIONS}",
        "ssl.key.password": "${env:HOST_TEST_SECRET}",
        "ottla.host.nodes": "2",
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    with pytest.raises(HostError, match="HOST_TEST_PORT"):
        run.read_plan(str(file))
    monkeypatch.setenv("HOST_TEST_PORT", "9092")
    monkeypatch.setenv("HOST_TEST_DATA", "/disk")
    monkeypatch.setenv("HOST_TEST_CONNECTIONS", "1000")
    monkeypatch.setenv("HOST_TEST_SECRET", "secret")
    second = run.read_plan(str(file)).nodes[1].properties
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert second["log.dirs"] == "/disk/node-2/data"
    assert second["max.connections"] == "500"
    # A secret is not written to the file of the node.
    assert second["ssl.key.password"] == "${env:HOST_TEST_SECRET}"
