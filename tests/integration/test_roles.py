"""`ottla roles`: bindings of a principal are plain ACLs, which any tool lists and the node enforces."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.support.sasl_node import SaslNode, librdkafka


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslNode]:
    with SaslNode(tmp_path_factory.mktemp("node")) as running:
        yield running


def ottla(node: SaslNode, *words: str) -> tuple[int, Any]:
    command = [str(Path(sys.executable).parent / "ottla"), *words, "-b", node.node.bootstrap, "--json"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return completed.returncode, json.loads(completed.stdout) if completed.returncode == 0 else completed.stderr


def rights(node: SaslNode, principal: str) -> set[tuple[str, str, str]]:
    _, acls = ottla(node, "acls", "list", "--principal", principal)
    return {(acl["resourceType"], acl["name"], acl["operation"]) for acl in acls}


def delivery_error(node: SaslNode) -> Any:
    errors: list[Any] = []
    settings = {**librdkafka(node, "PLAIN"), "sasl.username": "bob", "sasl.password": "bob-secret"}
    producer = confluent_kafka.Producer(settings)
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    return errors[0]


def test_a_role_from_its_creation_to_its_end(node: SaslNode) -> None:
    assert ottla(node, "roles", "list") == (0, [])
    assert ottla(node, "roles", "create", "writer", "--producer", "--topic", "orders")[0] == 0
    assert delivery_error(node) is not None

    code, bound = ottla(node, "roles", "bind", "writer", "--principal", "User:bob", "--principal", "Group:staff")
    assert (code, bound) == (0, {"role": "writer", "added": 6, "removed": 0})
    writing = {("TOPIC", "orders", operation) for operation in ("WRITE", "DESCRIBE", "CREATE")}
    assert rights(node, "User:bob") == rights(node, "Group:staff") == writing
    assert delivery_error(node) is None

    assert ottla(node, "roles", "create", "writer", "--replace", "--operation", "Write", "--topic", "orders")[0] == 0
    assert rights(node, "User:bob") == {("TOPIC", "orders", "WRITE")}
    assert ottla(node, "roles", "list") == (
        0,
        [{"name": "writer", "rules": 1, "members": ["User:bob", "Group:staff"]}],
    )
    assert ottla(node, "roles", "unbind", "writer", "--principal", "Group:staff")[0] == 0
    assert rights(node, "Group:staff") == set()

    ottla(node, "acls", "remove", "--allow-principal", "User:bob", "--operation", "Write", "--topic", "orders", "--yes")
    assert ottla(node, "roles", "apply")[1][0]["principal"] == "User:bob"
    assert ottla(node, "roles", "delete", "writer", "--yes")[0] == 0
    assert rights(node, "User:bob") == set()
    assert ottla(node, "roles", "list") == (0, [])
    assert delivery_error(node) is not None


def test_mistakes_are_explained(node: SaslNode) -> None:
    assert "no role 'nobody'" in ottla(node, "roles", "bind", "nobody", "--principal", "User:x")[1]
    code, error = ottla(node, "roles", "bind", "nobody", "--principal", "alice")
    assert code == 2
    assert "no principal" in error
