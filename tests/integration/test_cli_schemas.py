"""`ottla schemas`, and `produce` and `consume` with formats."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla.testing
from tests.support.registries import RegistryProcess, registry_process

ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"note","type":["null","string"]}]}'
)
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }'
PLACE = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'


@pytest.fixture(scope="module")
def registry(shared_cluster: ottla.testing.Cluster) -> Iterator[RegistryProcess]:
    with registry_process(shared_cluster.bootstrap) as process:
        yield process


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def ottla_command(*words: str, text: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli.main", *words]
    completed = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert completed.returncode == code, completed.stderr
    return completed


@pytest.mark.parametrize(
    ("form", "file", "schema", "line", "printed"),
    [
        ("avro", "o.avsc", ORDER, '{"id":7,"note":"x"}', '{"id":7,"note":"x"}'),
        ("protobuf", "o.proto", PROTO, '{"id":7,"note":"x"}', '{"id":"7","note":"x"}'),
        ("jsonschema", "o.json", PLACE, '{"id":7}', '{"id":7}'),
    ],
)
def test_records_with_schemas(
    shared_cluster: ottla.testing.Cluster,
    registry: RegistryProcess,
    topic: str,
    tmp_path: Path,
    form: str,
    file: str,
    schema: str,
    line: str,
    printed: str,
) -> None:
    (tmp_path / file).write_text(schema)
    common = (
        "-b",
        shared_cluster.bootstrap,
        "--registry",
        registry.url,
        "--value-format",
        form,
        "--key-format",
        "long",
    )
    command = ("produce", topic, *common, "-k", ":", "--value-schema", str(tmp_path / file))
    ottla_command(*command, text=f"1:{line}\n")
    # The second producer takes the latest version from the registry.
    ottla_command("produce", topic, *common, "-k", ":", text=f"2:{line}\n")
    read = ottla_command("consume", topic, *common, "--from-beginning", "--exit", "--keys")
    assert sorted(read.stdout.splitlines()) == [f"1\t{printed}", f"2\t{printed}"]
    wrong = ottla_command("produce", topic, *common, "-k", ":", text='3:{"id":"x y"}\n', code=1)
    assert "id" in wrong.stderr


def test_a_value_without_a_schema_is_refused(
    shared_cluster: ottla.testing.Cluster, registry: RegistryProcess, topic: str
) -> None:
    ottla_command("produce", topic, "-b", shared_cluster.bootstrap, text="plain\n")
    words = ("consume", topic, "-b", shared_cluster.bootstrap, "-F", "--exit", "--value-format", "avro")
    assert "needs a registry" in ottla_command(*words, code=1).stderr
    failed = ottla_command(*words, "--registry", registry.url, code=1)
    assert "no schema id" in failed.stderr


def test_schemas(registry: RegistryProcess, topic: str, tmp_path: Path) -> None:
    file, other = tmp_path / "order.avsc", tmp_path / "other.avsc"
    file.write_text(ORDER)
    other.write_text(ORDER.replace('"id"', '"number"'))
    registry_options = ("--registry", registry.url)
    assert (
        f"{topic} version 1 has the id"
        in ottla_command("schemas", "register", topic, str(file), *registry_options).stdout
    )
    assert topic in ottla_command("schemas", "list", *registry_options).stdout
    described = ottla_command("schemas", "show", topic, "--json", *registry_options)
    assert json.loads(described.stdout)["schema"] == ORDER
    assert ottla_command("schemas", "check", topic, str(file), *registry_options).stdout == "It is compatible.\n"
    assert "number" in ottla_command("schemas", "check", topic, str(other), *registry_options, code=1).stdout
    assert "incompatible" in ottla_command("schemas", "register", topic, str(other), *registry_options, code=1).stderr
    set_level = ottla_command("schemas", "compatibility", topic, "--set", "none", *registry_options)
    assert set_level.stdout == "NONE\n"
    ottla_command("schemas", "register", topic, str(other), *registry_options)
    assert ottla_command("schemas", "delete", topic, *registry_options).stdout == f"Deleted 2 versions of {topic}.\n"
    ottla_command("schemas", "delete", topic, "--permanent", "--yes", *registry_options)
    assert "not found" in ottla_command("schemas", "show", topic, *registry_options, code=1).stderr


def test_up_runs_a_registry(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "up", "--port", "0", "--data", str(tmp_path), "--registry", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    url = next(line.split()[1] for line in process.stdout if line.startswith("registry "))
    with urllib.request.urlopen(f"{url}/subjects", timeout=60) as answer:
        assert answer.read() == b"[]"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
    with pytest.raises(OSError, match=r"refused|reset"):
        urllib.request.urlopen(f"{url}/subjects", timeout=60)
