"""`ottla lake` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.app import run
from ottla.testing.clusters import node_environment
from tests.lake.lakes import Lake
from tests.support.spark_topics import Topics, numbered

COMMAND = [sys.executable, "-m", "ottla.cli.main", "lake"]


def ottla(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False, env=node_environment()
    )


@pytest.mark.slow
def test_tables_of_the_topics_that_want_one(topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named, own, other = topics.create(), topics.create(ottla_lake_mode="raw"), topics.create()
    for name in (named, own, other):
        topics.send(name, numbered(0, 5))
    file = tmp_path / "lake.properties"
    file.write_text(f"bootstrap.servers={topics.bootstrap}\nwarehouse={tmp_path}/warehouse\ntopics={named}\n")

    result = ottla("run", str(file), "--once")

    assert result.returncode == 0, result.stderr
    assert result.stdout == f"ready {', '.join(sorted([named, own]))}\n"
    lake = Lake(topics, tmp_path / "warehouse")
    assert [len(lake.rows(name)) for name in (named, own)] == [5, 5]
    topics.send(own, numbered(5, 7))
    result = ottla("compact", str(file), "--topic", own, "--json")
    assert json.loads(result.stdout) == [{"topic": own, "filesBefore": 0, "filesAfter": 0}], result.stderr
    copy = topics.name()
    result = ottla("backfill", str(file), "--topic", named, "--to", copy, "--portion", "2", "--json")
    assert json.loads(result.stdout) == {"topic": copy, "offsets": {"0": 5}}, result.stderr
    assert [record.value for record in topics.read(copy)] == numbered(0, 5)

    # Commands without Spark run here: a process would take seconds to import what they need.
    assert run(["lake", "status", str(file), "--json"]) == 0
    states = json.loads(capsys.readouterr().out)
    assert {state["topic"]: (state["rows"], state["lag"]) for state in states} == {named: (5, 0), own: (5, 2)}
    assert run(["lake", "status", str(file)]) == 0
    assert "lake." in capsys.readouterr().out
    assert run(["lake", "expire", str(file), "--older-than", "1d", "--orphans", "1d", "--json"]) == 0
    assert {row["topic"]: row["snapshots"] for row in json.loads(capsys.readouterr().out)} == {named: 0, own: 0}
    assert run(["lake", "backfill", str(file), "--topic", "unknown", "--to", copy]) == 1
    assert "There is no table" in capsys.readouterr().err
    assert run(["lake", "expire", str(file), "--older-than", "soon"]) == 2
    assert "not a time like" in capsys.readouterr().err


def test_a_file_that_cannot_work_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "lake.properties"
    file.write_text("bootstrap.servers = localhost:1\nwarehouse = lake\nmodes = raw\n")
    result = ottla(str(file))
    assert result.returncode == 1
    assert "Did you mean mode?" in result.stderr
    assert "Traceback" not in result.stderr
