"""What commands print: JSON in one case style, tables no wider than the terminal, empty results in words."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla.testing
from ottla.testing.clusters import node_environment
from tests.integration.group_members import create_topic
from tests.integration.test_cli import COMMAND, heeded

LONG = "a-topic-whose-name-alone-is-nearly-as-wide-as-a-terminal-of-eighty-columns"


@pytest.fixture(scope="module")
def empty() -> Iterator[str]:
    with ottla.testing.cluster() as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def full() -> Iterator[str]:
    """A node with topics, a group and a transaction."""
    with ottla.testing.cluster() as cluster:
        for name in ("orders", LONG):
            create_topic(cluster.bootstrap, 3, name=name)
        offsets = ConsumerGroupTopicPartitions("readers-of-everything", [TopicPartition("orders", 0, 0)])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.alter_consumer_group_offsets([offsets]).values():
            future.result(timeout=60)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "billing"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("orders", b"value")
        producer.commit_transaction(60)
        yield cluster.bootstrap


LISTINGS = [
    "topics list",
    "topics describe",
    "get-offsets",
    "groups list",
    "groups describe readers-of-everything",
    "groups describe readers-of-everything --members",
    "groups describe readers-of-everything --state",
    "transactions list",
    "transactions describe --transactional-id billing",
    "transactions find-hanging --broker-id 1",
    "producers orders",
    "configs describe --topic orders --all",
    "configs describe --broker 1",
    "configs describe --entity-type users",
    "reassign list",
    "log-dirs describe",
    "verify-replicas orders",
    "cluster describe",
    "cluster list-endpoints",
    "quorum describe --status",
    "quorum describe --replication",
    "features describe",
    "features version-mapping --release-version 4.3",
    "features feature-dependencies --feature metadata.version=25",
    "api-versions",
    "doctor --seconds 0.1",
    "top --interval 0.2 --count 1",
    "profile list",
]
# Objects whose keys are names given by users or by Kafka: settings, quotas, loggers.
NAMED = re.compile(r"apis|configs|settings|properties|metrics|quotas|values")


def keys_of(value: Any, parent: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield parent, key
            yield from keys_of(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, parent)


@pytest.mark.parametrize("line", LISTINGS)
def test_json_has_one_case_style(full: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    from ottla.cli.app import run

    words = line.split()
    bootstrap = [] if words[0] == "profile" or "feature-dep" in line or "version-map" in line else ["-b", full]
    code = run([*words, "--json", *bootstrap])
    captured = capsys.readouterr()
    assert code == 0 or words[0] == "doctor", captured.err
    answer = json.loads(captured.out)
    odd = {
        (parent, key)
        for parent, key in keys_of(answer)
        if not re.fullmatch(r"[a-z][A-Za-z0-9]*", key) and not NAMED.search(parent)
    }
    assert odd == set()


def on_a_terminal(line: str, bootstrap: str, columns: int = 80) -> tuple[int, str]:
    """The output of a command on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    pieces: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        except OSError:
            # Linux reports the end of a terminal with this error.
            return

    process = subprocess.Popen(
        [*COMMAND, *line.split()],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**node_environment(), "OTTLA_BOOTSTRAP_SERVER": bootstrap, "TERM": "dumb"},
    )
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    code = process.wait(180)
    reader.join(60)
    os.close(ours)
    return code, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", b"".join(pieces).decode().replace("\r\n", "\n"))


@pytest.mark.parametrize("line", LISTINGS)
def test_nothing_is_wider_than_the_terminal(full: str, line: str) -> None:
    if line == "topics list":
        # A single name is not folded, so that users can copy it.
        return
    code, output = on_a_terminal(line, full)
    assert code == 0 or line.startswith("doctor"), output
    assert [text for text in output.splitlines() if len(text) > 80] == []
    # The live view leaves the screen as it was.
    assert output.strip() or line.startswith("top ")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topics list", "There are no topics."),
        ("topics describe", "There are no topics."),
        ("get-offsets", "There are no topics."),
        ("groups list", "There are no groups."),
        ("transactions list", "There are no transactions."),
        ("transactions find-hanging --broker-id 1", "There is no hanging transaction."),
        ("configs describe --entity-type users", "There are no"),
        ("reassign list", "No partition reassignments found."),
        ("configs describe --broker 1", "no settings of its own"),
    ],
)
def test_an_empty_result_is_said_in_words(empty: str, line: str, words: str) -> None:
    completed = subprocess.run(
        [*COMMAND, *line.split(), "-b", empty], capture_output=True, text=True, timeout=60, check=False
    )
    assert completed.returncode == 0, completed.stderr
    assert words in completed.stdout + completed.stderr
    assert words in on_a_terminal(line, empty)[1]


def test_a_pipe_gets_whole_lines(full: str) -> None:
    completed = subprocess.run(
        [*COMMAND, "get-offsets", "-b", full], capture_output=True, text=True, timeout=60, check=True
    )
    assert f"{LONG}" in completed.stdout
    assert all(len(line.split()) == 3 for line in completed.stdout.splitlines())


def test_a_record_cannot_change_the_terminal(full: str) -> None:
    create_topic(full, 1, name="nasty")
    value = b"\x1b[2J\x07\xff caf\xc3\xa9\ttab"
    command = [*COMMAND, "produce", "nasty", "-b", full]
    subprocess.run(command, input=value + b"\n", check=True, timeout=60, env=node_environment())
    code, output = on_a_terminal("consume nasty -e -v", full, columns=200)
    assert code == 0
    line = output.splitlines()[0]
    assert "\\x1b[2J\\x07\\xff café" in line
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\s+nasty-0@0\s", line)
    read = [*COMMAND, "consume", "nasty", "-e", "-b", full]
    assert subprocess.run(read, capture_output=True, timeout=60, check=True).stdout == value + b"\n"


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("consume orders -F", b"value"),
        ("verifiable-consumer --topic orders --group-id x", b"startup_complete"),
        ("verifiable-producer --topic checked --throughput 5", b"startup_complete"),
        ("top --interval 0.2 --count 1000000 --json", b"brokers"),
    ],
)
def test_ctrl_c_is_130_everywhere(full: str, line: str, sign: bytes) -> None:
    with heeded(signal.SIGINT):
        process = subprocess.Popen(
            [*COMMAND, *line.split(), "-b", full],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=node_environment(),
        )
    try:
        assert process.stdout is not None
        while sign not in (printed := process.stdout.readline()):
            assert printed, process.communicate()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"Traceback" not in errors
    finally:
        process.kill()
        process.communicate()
