"""Directories formatted by kafka-storage and by `ottla storage format`: the same, and one quorum of both."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.commands.storage import storage
from ottla.host.files import OsFiles
from ottla.host.local_cluster import HOST
from ottla.model.ids import Uuid
from ottla.quorum.snapshots import read_snapshot
from ottla.quorum.voters import VoterSet
from ottla.storage.meta_properties import read_meta_properties
from tests.integration.test_cluster_roles import Processes, address_of
from tests.integration.test_quorum_changes import BROKERS, CONTROLLERS, Quorum
from tests.support.java import ToolServer

CLUSTER_ID = "T3R0bGFUZXN0Q2x1c3Rlcg"
FIRST, SECOND = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
BOTH = f"1@{HOST}:9093:{FIRST},2@{HOST}:9094:{SECOND}"
SALT = 'salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3kxeTE="'
# New clusters of ours begin without these.
WITHOUT_SHARE = ("--feature", "share.version=0", "--feature", "streams.version=0")


def by_kafka(java: ToolServer, path: Path, *flags: str, cluster_id: str = CLUSTER_ID) -> int:
    return java.run_class("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(path), *flags).status


def by_ottla(path: Path, *flags: str) -> int:
    try:
        return int(storage(["format", "-t", CLUSTER_ID, "-c", str(path), *flags], standalone_mode=False))
    except Exception:  # noqa: BLE001 - the command line makes a status of 1 of whatever it is
        return 1


def contents(directory: Path) -> dict[str, Any]:
    """File -> content, without times and random ids."""
    files = OsFiles()
    contents_by_name: dict[str, Any] = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file() and path.name != ".lock"):
        name = str(path.relative_to(directory))
        if path.name == "meta.properties":
            meta = read_meta_properties(files, str(directory))
            assert meta is not None
            contents_by_name[name] = (meta.cluster_id, meta.node_id, meta.directory_id is not None)
        else:
            snapshot = read_snapshot(files, str(path))
            voters = None if snapshot.voters_record is None else VoterSet.decode(snapshot.voters_record)
            contents_by_name[name] = ([bytes(value) for value in snapshot.values], snapshot.kraft_version)
            contents_by_name[f"{name}: voters"] = voters and [(voter.key.node_id, *voter[1:]) for voter in voters]
    return contents_by_name


@pytest.mark.parametrize(
    ("voters", "flags"),
    [
        (False, ["--standalone"]),
        (False, ["--initial-controllers", BOTH]),
        (False, ["--no-initial-controllers", "--release-version", "4.0"]),
        (False, ["--standalone", "--feature", "group.version=0"]),
        (False, []),
        (True, []),
        (True, ["--standalone"]),
        (True, ["--add-scram", f"SCRAM-SHA-256=[name=alice,{SALT},password=alice-secret]"]),
        (
            True,
            [
                "--add-scram",
                f"SCRAM-SHA-512=[name=alice,iterations=8192,{SALT},password=alice-secret]",
                "--add-scram",
                f"SCRAM-SHA-256=[name=bob,{SALT},saltedpassword=mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE=]",
            ],
        ),
        (True, ["--add-scram", "SCRAM-SHA-256=[name=alice]"]),
        (True, ["--add-scram", "SCRAM-SHA-256=[password=x]"]),
        (True, ["--add-scram", "SCRAM-SHA-1=[name=alice,password=x]"]),
        (True, ["--add-scram", "SCRAM-SHA-256=[name=alice,password=x,iterations=100]"]),
        (True, ["--add-scram", "SCRAM-SHA-256=[name=alice,password=x,iterations=100000]"]),
        (True, ["--add-scram", "SCRAM-SHA-256=[name=alice,password=x,what=y]"]),
        (True, ["--add-scram", "SCRAM-SHA-256=[name=alice,saltedpassword=mT0yyUUxnlJaC99HXgRTSYlb]"]),
        (True, ["--add-scram", "SCRAM-SHA-256=name=alice,password=x"]),
    ],
)
def test_both_write_the_same(java: ToolServer, tmp_path: Path, voters: bool, flags: list[str]) -> None:
    quorum = {"controller.quorum.voters": f"1@{HOST}:9093"} if voters else {}
    path = tmp_path / "node.properties"
    results = []
    for name in ("kafka", "ottla"):
        lines = {
            "process.roles": "controller",
            "node.id": "1",
            "listeners": f"CONTROLLER://{HOST}:9093",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(tmp_path / name),
            **(quorum or {"controller.quorum.bootstrap.servers": f"{HOST}:9093"}),
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        status = by_kafka(java, path, *flags, *WITHOUT_SHARE) if name == "kafka" else by_ottla(path, *flags)
        results.append((status, contents(tmp_path / name)))
    assert results[0] == results[1]


@pytest.fixture
def quorum(java: ToolServer, tmp_path: Path) -> Iterator[Quorum]:
    processes = Processes(tmp_path)
    created = Quorum(processes)
    voters = ",".join(
        f"{controller}@{HOST}:{created.ports[controller]}:{Uuid.random(random.SystemRandom())}"
        for controller in CONTROLLERS
    )
    flags = ("--initial-controllers", voters)
    try:
        created.format(1, *flags)
        for node_id in (2, 3):
            path = processes.write(str(node_id), **created.properties(node_id))
            assert by_kafka(java, path, *flags, cluster_id=created.cluster_id) == 0
        for node_id in (*CONTROLLERS, *BROKERS):
            created.start(node_id)
        for process in created.running.values():
            created.address = address_of(process)
        yield created
    finally:
        processes.end()


def test_directories_of_both_make_one_quorum(quorum: Quorum) -> None:
    quorum.create("topic")
    assert set(quorum.voters) == set(CONTROLLERS)
