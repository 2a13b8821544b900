"""ACLs: the same answers as Apache Kafka 4.3 gives, and the same records in the metadata log."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.data.make_acl_answers import ANSWERS
from tests.support.acl_scenario import SETTINGS, play
from tests.support.as_kafka import Answers, KafkasAnswers, as_kept
from tests.support.brokers import OttlaFromFile

# Intended differences from Apache Kafka, with their reasons.
_SAID = "Apache Kafka fails with UNKNOWN_SERVER_ERROR; we say what is wrong"
DIFFERENCES = {
    f"refused: only for filters: {kind}": _SAID
    for kind in ("any resource", "any pattern", "match", "any operation", "any permission")
}

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    with OttlaFromFile(tmp_path_factory.mktemp("node"), SETTINGS) as node:
        log = node.log_directory / "__cluster_metadata-0" / f"{0:020}.log"
        return as_kept(play(node.bootstrap, node.controller, log))


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaFromFile]:
    with OttlaFromFile(tmp_path_factory.mktemp("commands"), SETTINGS) as running:
        yield running


def command(node: OttlaFromFile, *arguments: str) -> tuple[int, Any]:
    program = str(Path(sys.executable).parent / "ottla")
    words = [program, "acls", *arguments, "--bootstrap-server", node.bootstrap, "--json"]
    completed = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return completed.returncode, json.loads(completed.stdout) if completed.stdout else completed.stderr


def test_our_command_takes_the_flags_of_kafka_acls(node: OttlaFromFile) -> None:
    alice = ("--allow-principal", "User:alice")
    code, added = command(node, "--add", *alice, "--consumer", "--topic", "orders", "--group", "workers")
    assert code == 0
    assert [(rule["resourceType"], rule["operation"]) for rule in added] == [
        ("TOPIC", "READ"),
        ("TOPIC", "DESCRIBE"),
        ("GROUP", "READ"),
    ]
    command(
        node,
        "add",
        "--deny-principal",
        "User:bob",
        "--deny-host",
        "10.0.0.1",
        "--topic",
        "ord",
        "--resource-pattern-type",
        "prefixed",
        "--operation",
        "Write",
    )
    _, listed = command(node, "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert {(rule["principal"], rule["patternType"], rule["permissionType"]) for rule in listed} == {
        ("User:alice", "LITERAL", "ALLOW"),
        ("User:bob", "PREFIXED", "DENY"),
    }
    _, of_bob = command(node, "list", "--principal", "User:bob")
    assert [rule["host"] for rule in of_bob] == ["10.0.0.1"]
    _, removed = command(node, "--remove", *alice, "--operation", "Read", "--group", "workers", "--force")
    assert [rule["resourceType"] for rule in removed] == ["GROUP"]
    _, removed = command(node, "remove", "--topic", "orders", "--yes")
    assert len(removed) == 2
    code, error = command(node, "add", "--topic", "orders")
    assert code == 2
    assert "needs a principal" in error
