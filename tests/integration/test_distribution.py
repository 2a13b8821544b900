"""The contents of the wheel and the source archive; nodes, clients and Spark run from the wheel alone."""

from __future__ import annotations

import configparser
import email
import json
import re
import signal
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import ottla
import ottla.testing
from tests.support.distribution import Environment, build_wheel, new_environment

ROOT = Path(__file__).resolve().parents[2]
TYPES = (
    "py.typed",
    "client/columns/decode/_native.pyi",
    "client/columns/encode/_native.pyi",
    "client/fast/_native.pyi",
)

CLIENT = """
import asyncio, sys
import ottla
from ottla.client.consumer import Consumer
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, parse_bootstrap

async def main(bootstrap):
    settings = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))
    async with Producer(settings) as producer:
        await (await producer.send("wheels", b"round"))
    async with Consumer(settings, ConsumerSettings(group_id="drivers", auto_offset_reset="earliest")) as consumer:
        await consumer.subscribe(["wheels"])
        while not (records := await consumer.poll()):
            pass
        print(ottla.__file__, records[0].value.decode())
    parts = {name.split(".")[1] for name in sys.modules if name.startswith("ottla.")}
    assert not parts & {"broker", "coordinator", "host", "metadata", "quorum", "replica", "storage", "cli"}, parts

asyncio.run(asyncio.wait_for(main(sys.argv[1]), 120))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return new_environment(tmp_path_factory.mktemp("environment"), wheel)


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "src" / "ottla"
    suffixes = {".py", ".txt", ".properties"}
    for path in package.rglob("*"):
        if path.suffix in suffixes or path.name == "py.typed":
            assert f"ottla/{path.relative_to(package)}" in names
    assert {f"ottla/{name}" for name in TYPES} <= names
    for part in ("columns/decode", "columns/encode", "fast"):
        assert any(name.startswith(f"ottla/client/{part}/_native.") and name.endswith(".so") for name in names)
    assert not any("tests" in name or "__pycache__" in name for name in names)


def test_the_archive_has_what_a_build_needs(wheel: Path) -> None:
    (archive,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    sources = {"pyproject.toml", "setup.py", "README.md", "CHANGELOG.md", "LICENSE"}
    assert (
        sources | {f"src/ottla/client/{part}/_native.c" for part in ("columns/decode", "columns/encode", "fast")}
        <= names
    )


def test_the_metadata_says_what_it_is(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        (directory,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = email.message_from_bytes(archive.read(f"{directory}/METADATA"))
        points = configparser.ConfigParser(delimiters="=")
        points.optionxform = str  # type: ignore[assignment,method-assign]
        points.read_string(archive.read(f"{directory}/entry_points.txt").decode())
        assert f"{directory}/licenses/LICENSE" in archive.namelist()
    assert metadata["Version"] == ottla.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    assert dict(points["console_scripts"]) == project["scripts"]
    for group, names in project["entry-points"].items():
        assert dict(points[group]) == names


def test_a_node_and_a_client_run_from_the_wheel(environment: Environment, tmp_path: Path) -> None:
    assert environment.run("ottla", "--version") == f"ottla {ottla.__version__}\n"
    command = [str(environment.bin / "ottla"), "up", "--port", "0", "--data", str(tmp_path / "data")]
    with subprocess.Popen(
        command,
        cwd=environment.directory,
        env=environment.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as node:
        try:
            assert node.stdout is not None
            word, bootstrap = node.stdout.readline().split()
            assert word == "ready"
            answer = environment.run("python", "-c", CLIENT, bootstrap).split()
            assert answer == [str(environment.site / "ottla" / "__init__.py"), "round"]
            listing = environment.run("ottla", "topics", "list", "--bootstrap-server", bootstrap)
            assert "wheels" in listing
            node.send_signal(signal.SIGTERM)
            node.communicate(timeout=60)
        finally:
            node.kill()
    assert node.returncode == 0


def test_spark_is_an_extra_that_is_named(environment: Environment) -> None:
    program = (
        "try:\n    import ottla.spark\nexcept ImportError as error:\n    print(error)\n"
        "import ottla.testing, ottla.client.blocking\n"
    )
    assert "pip install '.[spark]'" in environment.run("python", "-c", program)


IMPORTS = """
import importlib, pkgutil
import ottla.connect

for module in pkgutil.walk_packages(ottla.connect.__path__, "ottla.connect."):
    importlib.import_module(module.name)
"""


def test_connect_needs_no_more_than_its_extra(wheel: Path, tmp_path: Path) -> None:
    environment = new_environment(tmp_path, wheel, extras=("connect",))
    environment.run("python", "-c", IMPORTS)
    assert "FileStreamSourceConnector" in environment.run("ottla", "connect", "plugins")


SPARK = """
import json, os, sys, time
import ottla.spark
from ottla.client.columns.decode import _native as decode
from ottla.client.columns.encode import _native as encode
from pyspark.sql.functions import udf

bootstrap, scratch = sys.argv[1:]
spark = ottla.spark.session("wheel")
rows = spark.createDataFrame([(b"one",), (b"two",)], "value binary")
rows.write.format("ottla").option("bootstrap.servers", bootstrap).option("topic", "t").mode("append").save()
topic = {"bootstrap.servers": bootstrap, "subscribe": "t", "startingOffsets": "earliest"}
read = spark.read.format("ottla").options(**topic).load()
values = sorted(row.value.decode() for row in read.select("value").collect())

try:
    spark.read.format("ottla").option("subscribe", "t").load().collect()
except Exception as error:
    sentence = str(error)

def slow(value):
    open(scratch + "/begun", "w").close()
    time.sleep(2)
    return value

stream = spark.readStream.format("ottla").options(**topic).load().select(udf(slow)("value").alias("value"))
writer = stream.writeStream.format("ottla").option("bootstrap.servers", bootstrap).option("topic", "copies")
query = writer.option("checkpointLocation", scratch + "/checkpoint").start()
while not os.path.exists(scratch + "/begun"):
    time.sleep(0.01)
query.stop()
spark.stop()
files = [ottla.spark.__file__, decode.__file__, encode.__file__]
print(json.dumps({"files": files, "values": values, "sentence": sentence}))
"""


@pytest.mark.slow
def test_spark_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Spark runs in an environment with only the wheel, and logs no warnings or tracebacks."""
    environment = new_environment(tmp_path / "environment", wheel, extras=("spark",))
    with ottla.testing.cluster() as cluster:
        output, log = environment.run_both("python", "-c", SPARK, cluster.bootstrap, str(tmp_path))
    answer = json.loads(output.splitlines()[-1])
    assert answer["values"] == ["one", "two"]
    assert all(path.startswith(str(environment.site)) for path in answer["files"])
    # A wrong option is explained in a sentence; a query that is stopped in the middle of a batch logs no error.
    assert "Option 'bootstrap.servers' is missing" in answer["sentence"]
    assert "Traceback" not in answer["sentence"]
    assert re.findall(r"^.*(?:Traceback|WARN|ERROR|incubator|\tat ).*$", log, re.MULTILINE) == []
