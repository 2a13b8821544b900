"""`ottla connect new`: a connector that works, small enough to be read at once, with its test and its distribution.

The source counts up and the sink writes lines to a file: authors replace that by their own system. The test calls the
connector as a worker would, without Spark and without a broker. `pyproject.toml` makes the connector a distribution of
its own: its entry point is how workers find it.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path

__all__ = ["ScaffoldError", "write_connector"]


class ScaffoldError(Exception):
    """The connector cannot be written."""


def write_connector(name: str, *, kind: str, directory: Path) -> list[Path]:
    """Writes a directory with a distribution, its test and a configuration; returns the paths of the files."""
    module = re.sub(r"[^0-9a-z]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
    if not module or not module.isidentifier() or keyword.iskeyword(module):
        raise ScaffoldError(f"{name!r} cannot be the name of a Python module; use letters, digits and dashes.")
    target = directory / module
    if target.exists():
        raise ScaffoldError(f"{target} is there already.")
    words = "".join(word.capitalize() for word in module.split("_"))
    suffix = "Source" if kind == "source" else "Sink"
    class_name = words if words.endswith(suffix) else words + suffix
    templates = _DISTRIBUTION | (_SOURCE if kind == "source" else _SINK)
    written = []
    for place, text in templates.items():
        path = target / place.replace("MODULE", module)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("MODULE", module).replace("CLASS", class_name).lstrip("\n"))
        written.append(path)
    return written


_DISTRIBUTION = {
    "pyproject.toml": """
# `pip install .` beside a worker, and the worker has CLASS.

[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "MODULE"
version = "0.1.0"
dependencies = ["ottla[connect]"]

[project.entry-points."ottla.connectors"]
CLASS = "MODULE.connector:CLASS"

[tool.setuptools.packages.find]
where = ["plugins"]
""",
}

_SOURCE = {
    "plugins/MODULE/__init__.py": '''
"""CLASS: a source connector."""
''',
    "plugins/MODULE/connector.py": '''
"""Brings numbers into a topic. Replace what is between the comments by what you want to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.connect.api import (
    ConfigDefinitions,
    ConfigType,
    Importance,
    Range,
    ReadLimit,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceReader,
    Task,
)

if TYPE_CHECKING:
    import pyarrow

CONFIG = (
    ConfigDefinitions()
    .define("topic", ConfigType.STRING, importance=Importance.HIGH, documentation="The topic to write to.")
    .define("count", ConfigType.INT, default=1000, validator=Range(minimum=0), documentation="How many numbers.")
)


class CLASS(SourceConnector):
    version = "0.1.0"

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return CONFIG

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        # One task is enough here. With several, each gets its own share in its settings.
        return [dict(config)]

    def reader(self, task: Task) -> SourceReader:
        return CLASSReader(CONFIG.parse(task.config).integer("count"))


class CLASSReader(SourceReader):
    def __init__(self, count: int) -> None:
        self._count = count

    def partitions(self) -> Sequence[SourcePartition]:
        # What is read independently of each other: files, tables, shards.
        return [{"numbers": "all"}]

    def schema(self, partition: SourcePartition) -> str:
        return "key bigint, value struct<number: bigint, square: bigint>"

    def latest(self, partition: SourcePartition, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset | None:
        # Up to where the next batch reads; `start` when there is nothing new.
        read = 0 if start is None else int(str(start["read"]))
        end = min(self._count, read + limit.records)
        return start if end == read else {"read": end}

    def read(
        self, partition: SourcePartition, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        # The rows behind `start` up to `end`, the same ones every time.
        import pyarrow

        numbers = range(0 if start is None else int(str(start["read"])), int(str(end["read"])))
        yield pyarrow.RecordBatch.from_pydict(
            {
                "key": list(numbers),
                "value": [{"number": number, "square": number * number} for number in numbers],
            }
        )
''',
    "test_MODULE.py": '''
"""CLASS as a worker uses it: `python -m pytest test_MODULE.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "plugins"))

from MODULE.connector import CLASS

from ottla.connect.api import ReadLimit, Task
from ottla.connect.plugins import Plugins


def test_reads_everything_once_in_batches() -> None:
    connector = CLASS()
    (settings,) = connector.plan({"topic": "numbers", "count": "25"}, 4)
    reader = connector.reader(Task(connector="test", number=0, config=settings))
    (partition,) = reader.partitions()
    start, seen = None, []
    while (end := reader.latest(partition, start, ReadLimit(records=10))) != start:
        assert end is not None
        batches = list(reader.read(partition, start, end))
        assert batches == list(reader.read(partition, start, end)), "the same range must give the same rows"
        seen += [row["number"] for batch in batches for row in batch.column("value").to_pylist()]
        start = end
    assert seen == list(range(25))


def test_is_found_on_the_plugin_path() -> None:
    plugins = Plugins([str(Path(__file__).parent / "plugins")])
    assert plugins.connector("CLASS").__name__ == "CLASS"
''',
    "MODULE.properties": """
# ottla connect standalone worker.properties MODULE.properties, after `pip install .` or with plugin.path=.../plugins
name=MODULE
connector.class=CLASS
tasks.max=1
topic=numbers
count=1000
""",
}

_SINK = {
    "plugins/MODULE/__init__.py": '''
"""CLASS: a sink connector."""
''',
    "plugins/MODULE/connector.py": '''
"""Writes records to files, one for each batch. Replace `write` by what you want to do with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.connect.api import (
    Batch,
    ConfigDefinitions,
    ConfigType,
    Delivery,
    DeliveryClaim,
    Importance,
    SinkConnector,
    SinkWriter,
    Task,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONFIG = ConfigDefinitions().define(
    "directory", ConfigType.STRING, importance=Importance.HIGH, documentation="Where the files go."
)


class CLASS(SinkConnector):
    version = "0.1.0"
    # A batch that comes again has the same identity and replaces its own file.
    claim = DeliveryClaim(Delivery.EXACTLY_ONCE, "Files are replaced as a whole.")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return CONFIG

    def writer(self, task: Task) -> SinkWriter:
        return CLASSWriter(Path(CONFIG.parse(task.config).text("directory")))


class CLASSWriter(SinkWriter):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, frame: DataFrame, batch: Batch) -> None:
        # `frame` is lazy: this is where the topics are read. Large batches are better written by Spark itself.
        self.keep([row.asDict(recursive=True) for row in frame.collect()], batch)

    def keep(self, rows: Sequence[dict[str, Any]], batch: Batch) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        beside = self._directory / f".{batch.identity}"
        beside.write_text("".join(json.dumps(row, default=str) + "\\n" for row in rows))
        beside.replace(self._directory / f"{batch.identity}.jsonl")
''',
    "test_MODULE.py": '''
"""CLASS as a worker uses it: `python -m pytest test_MODULE.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "plugins"))

from MODULE.connector import CLASS, CLASSWriter

from ottla.connect.api import Batch, OffsetRange, Task
from ottla.connect.plugins import Plugins


def test_the_same_batch_again_changes_nothing(tmp_path: Path) -> None:
    task = Task(connector="test", number=0, config={"directory": str(tmp_path)})
    writer = CLASS().writer(task)
    assert isinstance(writer, CLASSWriter)
    batch = Batch(id=7, epoch="a", ranges=(OffsetRange("topic", 0, 0, 2),), task=task)
    for _ in range(2):
        writer.keep([{"offset": 0, "value": "x"}, {"offset": 1, "value": "y"}], batch)
    (path,) = tmp_path.glob("*.jsonl")
    assert len(path.read_text().splitlines()) == 2


def test_is_found_on_the_plugin_path() -> None:
    plugins = Plugins([str(Path(__file__).parent / "plugins")])
    assert plugins.connector("CLASS").__name__ == "CLASS"
''',
    "MODULE.properties": """
# ottla connect standalone worker.properties MODULE.properties, after `pip install .` or with plugin.path=.../plugins
name=MODULE
connector.class=CLASS
tasks.max=1
topics=numbers
directory=/tmp/MODULE
""",
}
