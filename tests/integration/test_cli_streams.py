"""The `ottla` command between a keyboard or a pipe and a terminal or a pipe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import ottla.testing
from ottla.cli.up import NEXT_STEPS
from ottla.testing.clusters import node_environment
from tests.integration.group_members import create_topic
from tests.integration.test_cli import COMMAND, heeded


@pytest.fixture(scope="module")
def quick() -> Iterator[str]:
    """The address of a node whose groups do not wait for more members."""
    with ottla.testing.cluster(settings={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        yield cluster.bootstrap


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_lines_are_sent_while_more_may_come_and_ctrl_c_ends_it(quick: str, tmp_path: Path, kind: str) -> None:
    create_topic(quick, 1, name=f"{kind}-that-pauses")
    reader, writer = os.pipe() if kind == "pipe" else reversed(os.openpty())
    # A space separates key and value, and is not lost on the way.
    format_of_lines = ("--property", "parse.key=true", "--property", "key.separator= ")
    command = [*COMMAND, "produce", f"{kind}-that-pauses", "-b", quick, "--linger-ms", "0", *format_of_lines]
    with (
        heeded(signal.SIGINT),
        subprocess.Popen(
            command,
            cwd=tmp_path,
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=node_environment(),
        ) as process,
    ):
        os.close(reader)
        try:
            os.write(writer, "žluťoučký kůň\nunfinished".encode())
            consumer = Consumer({"bootstrap.servers": quick, "group.id": "unused", "enable.auto.commit": False})
            consumer.assign([TopicPartition(f"{kind}-that-pauses", 0, 0)])
            record = consumer.poll(15)
            consumer.close()
            assert record is not None, "it was not sent"
            assert (record.key(), record.value()) == ("žluťoučký".encode(), "kůň".encode())
            process.send_signal(signal.SIGINT)
            assert process.wait(15) == 130
            assert process.stderr is not None
            assert process.stderr.read().strip() == b"Wrote 1 record to %s-that-pauses." % kind.encode()
        finally:
            process.kill()
            os.close(writer)


def test_a_reader_of_the_output_may_end_or_have_no_room(quick: str, tmp_path: Path) -> None:
    def listing(stdout: int) -> tuple[int, bytes]:
        command = [*COMMAND, "topics", "list", "-b", quick]
        with os.fdopen(stdout, "wb") as out:
            completed = subprocess.run(
                command, cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, timeout=20, check=False
            )
        return completed.returncode, completed.stderr

    create_topic(quick, 1, name="listed")
    reader, writer = os.pipe()
    os.close(reader)
    assert listing(writer) == (1, b"")
    code, errors = listing(os.open("/dev/full", os.O_WRONLY))
    assert (code, errors.count(b"\n")) == (1, 1)
    assert errors.endswith(b"No space left on device.\n")


def test_what_is_shown_works_when_it_is_pasted(quick: str, tmp_path: Path) -> None:
    shown = NEXT_STEPS.format(bootstrap=quick, data="data")
    example = shown[shown.index("from ") : shown.index("Data is kept")]
    # Interactive, as for pasted code: Python runs it line by line and shows values.
    completed = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=example,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Error" not in completed.stderr
    assert completed.stdout == "0\nb'Hello, Ottla!'\n"
