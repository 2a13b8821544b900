"""Clients of other languages, unchanged, against the registry. Their packages are fetched by npm and Go."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla.testing
from tests.support.registries import RegistryProcess, registry_process

pytestmark = pytest.mark.faults

PROGRAMS = Path(__file__).parent / "programs"
NPM_PACKAGE = "@kafkajs/confluent-schema-registry@3"
GO_MODULE = "github.com/twmb/franz-go/pkg/sr@v1.8.0"


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryProcess]:
    with ottla.testing.cluster() as cluster, registry_process(cluster.bootstrap) as process:
        yield process


def fetched(directory: Path, *command: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        pytest.skip(f"{' '.join(command)} failed: {done.stderr[-300:]}")


def test_npm(registry: RegistryProcess, tmp_path: Path) -> None:
    fetched(tmp_path, "npm", "install", "--no-audit", "--no-fund", NPM_PACKAGE)
    shutil.copy(PROGRAMS / "registry_client.js", tmp_path)
    done = subprocess.run(
        ["node", "registry_client.js", registry.url], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "avro": {"a": "x"},
        "json": {"a": 3},
        "proto": {"a": "y", "b": [1, 2]},
        "latest": True,
        "found": True,
        "byschema": True,
        "refused": "Confluent_Schema_Registry - Schema being",
    }


def test_go(registry: RegistryProcess, tmp_path: Path) -> None:
    fetched(tmp_path, "go", "mod", "init", "registry_client")
    fetched(tmp_path, "go", "get", GO_MODULE)
    shutil.copy(PROGRAMS / "registry_client.go", tmp_path / "main.go")
    done = subprocess.run(["go", "run", ".", registry.url], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "1 2 true",
        "true",
        "1",
        "[1 2]",
        "true 409",
        "false",
        "NONE <nil>",
        "PROTOBUF [AVRO PROTOBUF JSON]",
        "[1 2] [1 2]",
        "READWRITE <nil>",
    ]
