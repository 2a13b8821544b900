"""Exactly once, whoever is killed: a worker with all our exact connectors dies at random, again and again.

Every sink and source that claims to be exact takes part at once. In the end each topic and each target must hold every
record once: the worker, its Spark driver and all its Python processes were killed with -9 in the middle of batches.
FAULTS_KILLS says how often (5), FAULTS_SEED which times are drawn.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from ottla.testing import cluster
from tests.support.connect_live import visible_files, worker_properties
from tests.support.spark_topics import Topics

pytestmark = [pytest.mark.faults, pytest.mark.spark]

PROGRAM = Path(__file__).parent.parent / "support" / "programs" / "connect_worker.py"
KILLS = int(os.environ.get("FAULTS_KILLS", "5"))
SEED = int(os.environ.get("FAULTS_SEED", "1"))
RECORDS = 20_000
LINES = 4_000
FILES = 12
ROWS = 100
END_SECONDS = 600.0
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Process:
    """A worker that is started and killed."""

    def __init__(self, directory: Path, properties: dict[str, str]) -> None:
        self._properties = directory / "worker.json"
        self._properties.write_text(json.dumps(properties))
        self._address = directory / "address.txt"
        self._log = directory / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._address.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(self._properties), str(self._address)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + 180
        while not self._address.exists() or not self._address.read_text():
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < end, self._log.read_text()[-3000:]
            time.sleep(0.1)

    def kill(self) -> None:
        """All of it: the driver, its Java and the Python workers are one session."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def request(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        address = self._address.read_text().rstrip("/") + path
        request = urllib.request.Request(
            address, data=data, method=method, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def put(self, name: str, **config: str) -> None:
        given = {key.replace("_", "."): value for key, value in config.items()}
        end = time.monotonic() + 120
        while True:
            try:
                self.request("PUT", f"/connectors/{name}/config", given)
                return
            except urllib.error.HTTPError as error:
                if error.code != 409 or time.monotonic() > end:
                    raise
                time.sleep(0.5)


@pytest.fixture
def topics() -> Iterator[Topics]:
    with cluster() as running:
        found = Topics(running.bootstrap)
        yield found
        found.close()


@pytest.mark.timeout(0)
def test_everything_is_there_once_whenever_the_worker_is_killed(topics: Topics, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    properties = worker_properties(topics.bootstrap, "killed", session_timeout_ms="6000", heartbeat_interval_ms="1000")
    worker = Process(tmp_path, properties | {"batch.max.records": "1000", "spark.master": "local[2,4]"})
    made, typed, rows = (topics.create(partitions=2), topics.create(), topics.create())
    lines_in, lines_out = tmp_path / "in.txt", tmp_path / "out.txt"
    lines_in.write_text("".join(f"{number}\n" for number in range(LINES)))
    incoming, parquet = tmp_path / "incoming", tmp_path / "parquet"
    incoming.mkdir()
    for number in range(FILES):
        some = "".join(json.dumps({"id": number * ROWS + each}) + "\n" for each in range(ROWS))
        (incoming / f"{number}.json").write_text(some)
    worker.start()
    try:
        worker.put(
            "made", connector_class="GeneratorSource", template="orders", topic=made, count=str(RECORDS), rate="0",
            value_converter_schemas_enable="true", value_converter="JsonConverter",
        )  # fmt: skip
        worker.put(
            "kept", connector_class="DirectorySink", path=str(parquet), format="parquet", topics=made,
            partition_by="paid", value_converter="JsonConverter", value_converter_schemas_enable="true", tasks_max="2",
        )  # fmt: skip
        worker.put(
            "typed", connector_class="FileStreamSource", file=str(lines_in), topic=typed, batch_size="200",
            value_converter=STRING,
        )  # fmt: skip
        worker.put(
            "printed", connector_class="FileStreamSink", file=str(lines_out), topics=typed, value_converter=STRING
        )
        worker.put(
            "rows", connector_class="DirectorySource", path=str(incoming), format="json", topic=rows, settle_ms="0",
            batch_max_records="30", tasks_max="2",
        )  # fmt: skip
        for number in range(KILLS):
            _wait_for_work(lines_out, parquet)
            time.sleep(chance.uniform(0.0, 5.0))
            worker.kill()
            print(f"killed {number + 1}: {_progress(lines_out, parquet)}", flush=True)
            worker.start()
        end = time.monotonic() + END_SECONDS
        while not _done(lines_out, parquet, topics, rows):
            assert time.monotonic() < end, _progress(lines_out, parquet)
            time.sleep(2.0)
    finally:
        worker.kill()
    assert sorted(json.loads(record.value)["payload"]["order_id"] for record in topics.read(made)) == list(
        range(RECORDS)
    )
    assert sorted(_ids(parquet)) == list(range(RECORDS))
    assert [int(record.value) for record in topics.read(typed)] == list(range(LINES))
    assert [int(line) for line in lines_out.read_text().splitlines()] == list(range(LINES))
    assert sorted(json.loads(record.value)["id"] for record in topics.read(rows)) == list(range(FILES * ROWS))


def _wait_for_work(lines_out: Path, parquet: Path) -> None:
    """Until something more has arrived: a worker that is killed while it starts shows little."""
    before, end = _progress(lines_out, parquet), time.monotonic() + END_SECONDS
    while _progress(lines_out, parquet) == before:
        assert time.monotonic() < end, before
        time.sleep(0.2)


def _done(lines_out: Path, parquet: Path, topics: Topics, rows: str) -> bool:
    if not lines_out.exists() or len(lines_out.read_text().splitlines()) < LINES or len(_ids(parquet)) < RECORDS:
        return False
    return len(topics.read(rows)) >= FILES * ROWS


def _progress(lines_out: Path, parquet: Path) -> str:
    lines = len(lines_out.read_text().splitlines()) if lines_out.exists() else 0
    return f"{lines} of {LINES} lines, {len(_ids(parquet))} of {RECORDS} rows"


def _ids(path: Path) -> list[int]:
    found: list[int] = []
    for file in visible_files(path, ".parquet"):
        found += pyarrow.parquet.ParquetFile(file).read(["order_id"]).column(0).to_pylist()
    return found
