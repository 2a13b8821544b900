"""Exactly once: a worker with all our exact connectors is killed at random, again and again.

Every sink and source that claims to be exact takes part at once. In the end each topic and each target must hold every
record once: the worker, its Spark driver and all its Python processes were killed with -9 in the middle of batches.
A kill waits until its target has received new records, and more records always follow. FAULTS_KILLS is the number of
kills (6, at least one for each target), FAULTS_SEED the seed of the random times.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from ottla.testing import cluster
from tests.support.brokers import free_ports
from tests.support.connect_live import visible_files, worker_properties
from tests.support.spark_java import SHORT_LIVED
from tests.support.spark_topics import Topics

pytestmark = [pytest.mark.faults, pytest.mark.spark]

PROGRAM = Path(__file__).parent.parent / "support" / "programs" / "connect_worker.py"
KILLS = int(os.environ.get("FAULTS_KILLS", "6"))
SEED = int(os.environ.get("FAULTS_SEED", "1"))
# One portion for every kill, and one for the time after the last kill.
PORTIONS = KILLS + 1
RECORDS = 2_000 * PORTIONS
LINES = 800 * PORTIONS
FILES = 4 * PORTIONS
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
        """Kills the whole session: the driver, its JVM and the Python workers."""
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
        properties = {key.replace("_", "."): value for key, value in config.items()}
        end = time.monotonic() + 120
        while True:
            try:
                self.request("PUT", f"/connectors/{name}/config", properties)
                return
            except urllib.error.HTTPError as error:
                if error.code != 409 or time.monotonic() > end:
                    raise
                time.sleep(0.5)


@pytest.fixture
def topics() -> Iterator[Topics]:
    with cluster() as running:
        client = Topics(running.bootstrap)
        yield client
        client.close()


@dataclass
class Pipelines:
    """The input, in portions, and the records at every target."""

    directory: Path
    topics: Topics
    made: str
    typed: str
    rows: str
    spread: str
    # The rows of each Parquet file that was seen: a file never changes.
    _seen: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lines_in, self.lines_out = self.directory / "in.txt", self.directory / "out.txt"
        self.incoming, self.scanned = self.directory / "incoming", self.directory / "scanned"
        self.parquet = self.directory / "parquet"
        self.incoming.mkdir()
        self.scanned.mkdir()

    def feed(self, worker: Process, portion: int) -> None:
        count = LINES // PORTIONS
        with self.lines_in.open("a") as file:
            file.write("".join(f"{number}\n" for number in range(portion * count, (portion + 1) * count)))
        count = FILES // PORTIONS
        for number in range(portion * count, (portion + 1) * count):
            content = "".join(json.dumps({"id": number * ROWS + row}) + "\n" for row in range(ROWS))
            for target in (self.incoming, self.scanned):
                beside = target / f".{number}.json"
                beside.write_text(content)
                beside.replace(target / f"{number}.json")
        self._make_up_to(worker, RECORDS // PORTIONS * (portion + 1))

    def _make_up_to(self, worker: Process, records: int) -> None:
        """Raises the generator's limit to the end of the next portion."""
        worker.put(
            "made", connector_class="GeneratorSource", template="orders", topic=self.made, count=str(records), rate="0",
            value_converter_schemas_enable="true", value_converter="JsonConverter",
        )  # fmt: skip

    def start(self, worker: Process) -> None:
        worker.put(
            "kept", connector_class="DirectorySink", path=str(self.parquet), format="parquet", topics=self.made,
            partition_by="paid", value_converter="JsonConverter", value_converter_schemas_enable="true", tasks_max="2",
        )  # fmt: skip
        worker.put(
            "typed", connector_class="FileStreamSource", file=str(self.lines_in), topic=self.typed, batch_size="100",
            value_converter=STRING,
        )  # fmt: skip
        worker.put(
            "printed", connector_class="FileStreamSink", file=str(self.lines_out), topics=self.typed,
            value_converter=STRING,
        )  # fmt: skip
        worker.put(
            "rows", connector_class="DirectorySource", path=str(self.incoming), format="json", topic=self.rows,
            settle_ms="0", batch_max_records="30", tasks_max="2",
        )  # fmt: skip
        worker.put(
            "spread", connector_class="SparkSource", topic=self.spread, spark_format="json", spark_schema="id BIGINT",
            spark_option_path=str(self.scanned), spark_option_maxFilesPerTrigger="1",
            checkpoint_location=str(self.directory / "checkpoints"),
        )  # fmt: skip

    def arrived(self) -> dict[str, int]:
        for file in visible_files(self.parquet, ".parquet"):
            if file not in self._seen:
                self._seen[file] = pyarrow.parquet.ParquetFile(file).metadata.num_rows
        return {
            "kept": sum(self._seen.values()),
            "printed": len(self.lines_out.read_text().splitlines()) if self.lines_out.exists() else 0,
            "rows": len(self.topics.read(self.rows)),
            "spread": len(self.topics.read(self.spread)),
        }


WANTED = {"kept": RECORDS, "printed": LINES, "rows": FILES * ROWS, "spread": FILES * ROWS}


@pytest.mark.timeout(0)
def test_everything_is_there_once_whenever_the_worker_is_killed(topics: Topics, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    # Back at the same address, as a service would be.
    properties = worker_properties(topics.bootstrap, "killed", listeners=f"http://127.0.0.1:{free_ports(1)[0]}")
    properties |= {"batch.max.records": "1000", "spark.master": "local[2,4]", **SHORT_LIVED}
    worker = Process(tmp_path, properties)
    pipelines = Pipelines(
        tmp_path, topics, topics.create(partitions=2), topics.create(), topics.create(), topics.create()
    )
    killed_midway: set[str] = set()
    began = time.monotonic()
    worker.start()
    try:
        pipelines.start(worker)
        for number in range(KILLS):
            before, watched = pipelines.arrived(), list(WANTED)[number % len(WANTED)]
            pipelines.feed(worker, number)
            arrived = _until_there(pipelines, {watched: before[watched] + 1})
            time.sleep(chance.uniform(0.0, 1.0))
            worker.kill()
            killed_midway |= {name for name, count in arrived.items() if before[name] < count < WANTED[name]}
            seconds, after = time.monotonic() - began, pipelines.arrived()
            print(f"{seconds:.0f} s: kill {number + 1}, watching {watched}: {before} -> {after}", flush=True)
            worker.start()
        pipelines.feed(worker, KILLS)
        _until_there(pipelines, WANTED)
    finally:
        worker.kill()
    assert killed_midway == set(WANTED)
    orders = [json.loads(record.value)["payload"]["order_id"] for record in topics.read(pipelines.made)]
    assert sorted(orders) == list(range(RECORDS))
    assert sorted(_ids(pipelines.parquet)) == list(range(RECORDS))
    assert [int(record.value) for record in topics.read(pipelines.typed)] == list(range(LINES))
    assert [int(line) for line in pipelines.lines_out.read_text().splitlines()] == list(range(LINES))
    for topic in (pipelines.rows, pipelines.spread):
        assert sorted(json.loads(record.value)["id"] for record in topics.read(topic)) == list(range(FILES * ROWS))


def _until_there(pipelines: Pipelines, wanted: dict[str, int]) -> dict[str, int]:
    end = time.monotonic() + END_SECONDS
    while True:
        arrived = pipelines.arrived()
        if all(arrived[name] >= count for name, count in wanted.items()):
            return arrived
        assert time.monotonic() < end, f"{arrived}, wanted {wanted}"
        time.sleep(0.2)


def _ids(path: Path) -> list[int]:
    order_ids: list[int] = []
    for file in visible_files(path, ".parquet"):
        order_ids += pyarrow.parquet.ParquetFile(file).read(["order_id"]).column(0).to_pylist()
    return order_ids
