"""`ottla connect list`, `status` and the other verbs, with a worker of ours and with Apache Kafka's."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.cli.app import run
from ottla.testing import Cluster, cluster
from tests.support import jars
from tests.support.brokers import QUICK_JVM_OPTIONS
from tests.support.connect_workers import fake_worker
from tests.support.java import java_command, unavailable_reason

WAIT_SECONDS = 120.0


class Place(NamedTuple):
    """A worker, a connector that runs there, and a connector whose task fails with this message."""

    url: str
    source: dict[str, str]
    failing: dict[str, str]
    cause: str


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def place(request: pytest.FixtureRequest, broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp(request.param)
    yield from _ours(broker, directory) if request.param == "ottla" else _theirs(broker, directory)


def _ours(broker: Cluster, directory: Path) -> Iterator[Place]:
    urls: list[str] = []
    ready, done = threading.Event(), threading.Event()

    async def work() -> None:
        async with fake_worker(broker.bootstrap, directory, distributed=False) as (worker, _, _):
            urls.append(worker.url.rstrip("/"))
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        assert ready.wait(WAIT_SECONDS)
        source = {"connector.class": "LineSource", "file": "x", "topic": "lines"}
        failing = {"connector.class": "LineSink", "topics": "lines", "fail": "no disk"}
        yield Place(urls[0], source, failing, "Traceback: no disk")
    finally:
        done.set()
        thread.join()


def _theirs(broker: Cluster, directory: Path) -> Iterator[Place]:
    if reason := unavailable_reason(jars.COMPAT):
        pytest.skip(f"Java tests: {reason}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    converter = "org.apache.kafka.connect.storage.StringConverter"
    (directory / "worker.properties").write_text(
        f"bootstrap.servers={broker.bootstrap}\nkey.converter={converter}\nvalue.converter={converter}\n"
        f"offset.storage.file.filename={directory / 'offsets'}\nlisteners=http://127.0.0.1:{port}\n"
        "plugin.discovery=service_load\n"
    )
    command = [java_command(), "-Xmx256m", *QUICK_JVM_OPTIONS, "-cp", jars.class_path(jars.COMPAT)]
    command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(directory / "worker.properties")]
    with (directory / "log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=directory, stdout=log, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        _until(lambda: _answers(f"{url}/connectors") or worker.poll() is not None)
        source = {"connector.class": "FileStreamSource", "file": str(directory / "lines"), "topic": "lines"}
        failing = {"connector.class": "FileStreamSink", "topics": "lines", "file": "/nowhere/x"}
        yield Place(url, source, failing, "java.nio.file.NoSuchFileException: /nowhere/x")
    finally:
        worker.kill()
        worker.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Answer]


@pytest.fixture
def call(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Call]:
    monkeypatch.setenv("OTTLA_CONNECT_URL", place.url)
    monkeypatch.chdir(tmp_path)

    def call(*words: str, code: int = 0) -> Answer:
        answer = Answer(run(["connect", *words]), *capsys.readouterr())
        assert answer.code == code, answer
        return answer

    yield call
    for connector in call("list", "--json").json:
        call("delete", connector["name"], "--yes")


def _until_state(call: Call, name: str, state: str) -> dict[str, Any]:
    status: dict[str, Any] = {}

    def holds() -> bool:
        (status["now"],) = call("status", name, "--json").json
        return {task["state"] for task in status["now"]["tasks"]} == {state}

    _until(holds)
    now: dict[str, Any] = status["now"]
    return now


def test_the_life_of_a_connector(place: Place, call: Call, tmp_path: Path) -> None:
    empty = call("list")
    assert empty.err == f"There are no connectors at {place.url}.\n"
    (tmp_path / "lines.json").write_text(json.dumps({"name": "lines", "config": {**place.source, "tasks.max": 1}}))
    assert "Created connector lines." in call("create", "lines.json").out
    assert "already" in call("create", "lines.json", code=1).err
    _until_state(call, "lines", "RUNNING")
    header, row = call("list").out.splitlines()
    assert header.split() == ["NAME", "TYPE", "STATE", "TASKS", "CLASS"]
    assert row.split() == ["lines", "source", "RUNNING", "1", "running", place.source["connector.class"]]
    assert "lines: source, RUNNING on" in call("status").out
    assert f"topic={place.source['topic']}\n" in call("config", "lines").out
    call("pause", "lines")
    _until_state(call, "lines", "PAUSED")
    call("resume", "lines")
    _until_state(call, "lines", "RUNNING")
    call("restart", "lines", "--all-tasks")
    call("restart", "lines", "--task", "0")
    _until_state(call, "lines", "RUNNING")
    call("create", "lines.json", "--replace", "--set", "topic=other")
    assert call("config", "lines", "--json").json["topic"] == "other"
    call("stop", "lines")
    _until(lambda: call("status", "lines", "--json").json[0]["tasks"] == [])
    refused = call("delete", "lines", code=1)
    assert "add --yes" in refused.err
    assert call("delete", "lines", "-y").out == "Deleted connector lines.\n"
    assert call("list", "--json").json == []


def test_failures_are_told_by_their_cause(place: Place, call: Call, tmp_path: Path) -> None:
    properties = "".join(f"{key}={value}\n" for key, value in place.failing.items())
    (tmp_path / "bad.properties").write_text(f"name=bad\n{properties}")
    call("create", "bad.properties")
    failed = _until_state(call, "bad", "FAILED")
    assert failed["state"] == "RUNNING"
    assert place.cause in failed["tasks"][0]["trace"]
    assert f"bad, task 0: {place.cause}\n" in call("logs").out
    assert place.cause in call("status", "bad").out
    assert call("logs", "bad", "--json").json[0]["cause"] == place.cause
    call("restart", "bad")
    _until_state(call, "bad", "FAILED")


def test_log_levels(call: Call) -> None:
    call("logs", "--level", "org.apache.kafka.connect.runtime.Worker=debug")
    levels = {row["logger"]: row["level"] for row in call("logs", "--levels", "--json").json}
    assert levels["org.apache.kafka.connect.runtime.Worker"] == "DEBUG"


def test_a_configuration_is_checked_before(place: Place, call: Call) -> None:
    connector_class = place.failing["connector.class"]
    wrong = call("create", "--dry-run", "--name", "x", "--set", f"connector.class={connector_class}", code=1)
    assert "x: topics: " in wrong.out
    words = [f"--set={key}={value}" for key, value in place.source.items()]
    assert call("create", "--dry-run", "--name", "x", *words).out == "x: the configuration is valid.\n"
    assert call("list", "--json").json == []


def test_what_is_wrong_is_one_sentence(place: Place, call: Call, tmp_path: Path) -> None:
    call("create", "--name", "lines", *[f"--set={key}={value}" for key, value in place.source.items()])
    assert call("status", "liens", code=1).err == "ottla: There is no connector 'liens'. Did you mean 'lines'?\n"
    assert "There is no connector 'x'" in call("delete", "x", "-y", code=1).err
    (tmp_path / "bad.json").write_text("{")
    assert call("create", "bad.json", code=1).err.startswith("ottla: bad.json: The file is not JSON")
    assert "has no name" in call("create", "--set", "a=b", code=2).err
    assert "Name a file" in call("create", code=2).err
    nobody = call("list", "--url", "http://user:secret@127.0.0.1:1", code=1).err
    assert nobody.startswith("ottla: No Kafka Connect worker answers at http://127.0.0.1:1 (Connection refused).")
    assert "is not an address like" in call("list", "-u", "localhost", code=2).err
    # The first worker of the list does not answer, the second does.
    assert len(call("list", "--json", "-u", f"http://127.0.0.1:1,{place.url}").json) == 1
