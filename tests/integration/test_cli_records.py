"""`ottla produce` and `ottla consume` with a node: exact bytes, all start and end options, and filters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ottla.testing
from ottla.cli.app import run
from ottla.testing.clusters import node_environment
from tests.integration.group_members import create_topic
from tests.integration.test_cli import COMMAND, heeded


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with ottla.testing.cluster() as cluster:
        yield cluster.bootstrap


class Answer(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Call = Callable[..., Answer]


@pytest.fixture
def call(
    bootstrap: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Call:
    """Runs a command in this process."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", bootstrap)
    monkeypatch.chdir(tmp_path)

    def call(*words: str, stdin: bytes = b"") -> Answer:
        path = tmp_path / "stdin"
        path.write_bytes(stdin)
        with path.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            code = run(words)
        out, err = capfdbinary.readouterr()
        # librdkafka, with which topics are created, logs to the same standard error.
        lines = [line for line in err.decode().splitlines(keepends=True) if not line.startswith("%")]
        return Answer(code, out, "".join(lines))

    return call


BINARY = b"\xff\xfe\x00\x80"


def test_bytes_that_are_no_text_are_written_and_read_back(bootstrap: str, call: Call) -> None:
    create_topic(bootstrap, 1, name="bytes")
    written = call("produce", "bytes", "-k", ":", stdin=b"k:caf\xe9\n\xff:" + BINARY + b"\r\n")
    assert (written.code, written.out, written.err) == (0, b"", "Wrote 2 records to bytes.\n")
    assert call("consume", "bytes", "-e", "-k").out == b"k\tcaf\xe9\n\xff\t" + BINARY + b"\n"
    objects = call("consume", "bytes", "--exit", "--json").objects
    assert [record["key"] for record in objects] == ["k", {"base64": "/w=="}]
    assert objects[1]["value"] == {"base64": "//4AgA=="}
    assert call("consume", "bytes", "-e", "--encoding", "hex").out == b"636166e9\nfffe0080\n"
    assert call("consume", "bytes", "-e", "--encoding", "base64").out == b"Y2Fm6Q==\n//4AgA==\n"
    assert call("consume", "bytes", "-e", "--format", r"%o:%S:%s\0").out == b"0:4:caf\xe9\x001:4:" + BINARY + b"\x00"
    # Input that was read as JSON is written back unchanged.
    create_topic(bootstrap, 1, name="copy")
    read = call("consume", "bytes", "-e", "--json").out
    assert call("produce", "copy", "--input", "json", stdin=read).code == 0
    assert call("consume", "copy", "-e", "--json").out == read.replace(b'"bytes"', b'"copy"')


def test_files_are_one_record_each(bootstrap: str, call: Call, tmp_path: Path) -> None:
    create_topic(bootstrap, 1, name="files")
    (tmp_path / "one").write_bytes(b"a\nb\n" + BINARY)
    (tmp_path / "two").write_bytes(b"")
    sent = call("produce", "files", "one", "two", "-", "--key", "k", "-H", "kind=file", stdin=b"three")
    assert sent.err == "Wrote 3 records to files.\n"
    objects = call("consume", "files", "-e", "--json", "--encoding", "hex").objects
    assert [record["value"]["hex"] for record in objects] == ["610a620afffe0080", "", "7468726565"]
    assert {
        (record["key"]["hex"], *record["headers"][0]) == ("6b", "kind", {"hex": "66696c65"}) for record in objects
    } == {True}
    missing = call("produce", "files", "one", "nowhere")
    assert (missing.code, missing.err) == (
        1,
        "ottla: nowhere: No such file or directory.\nWrote 1 record to files; 1 record failed.\n",
    )


def test_json_lines_choose_key_headers_time_and_partition(bootstrap: str, call: Call) -> None:
    create_topic(bootstrap, 3, name="chosen")
    line = {"key": "k", "value": {"n": 1}, "headers": {"h": "x"}, "timestamp": 1_700_000_000_000, "partition": 2}
    bad = b'{"value": "before"}\n{"vlaue": "typo"}\n{"value": "behind"}\n'
    sent = call("produce", "chosen", "-i", "json", stdin=json.dumps(line).encode() + b"\n" + bad)
    assert sent.code == 1
    assert sent.err.splitlines() == [
        "ottla: Line 3 has the unknown field 'vlaue'. Did you mean 'value'?",
        "Wrote 2 records to chosen; 1 record failed.",
    ]
    (record,) = call("consume", "chosen", "-e", "--json", "--key", "k").objects
    expected = {"topic": "chosen", "partition": 2, "offset": 0, "timestamp": 1_700_000_000_000}
    assert record == {**expected, "key": "k", "value": '{"n":1}', "headers": [["h", "x"]]}
    refused = call("produce", "chosen", "-i", "json", "--json", stdin=b'{"partition": 9}')
    assert (refused.code, json.loads(refused.out)) == (1, {"topic": "chosen", "sent": 0, "failed": 1})
    assert refused.err.startswith("ottla: ")


def test_a_rate_is_kept(bootstrap: str, call: Call) -> None:
    create_topic(bootstrap, 1, name="paced")
    assert call("produce", "paced", "--rate", "20", stdin=b"x\n" * 11).code == 0
    times = [record["timestamp"] for record in call("consume", "paced", "-e", "--json").objects]
    # The eleventh record is sent ten intervals after the first. A slow machine takes longer.
    assert times[-1] - times[0] >= 490


@pytest.fixture(scope="module")
def timed(bootstrap: str) -> str:
    """A topic of two partitions with records at seconds 1 to 10, alternating; `even` and `odd` are their keys."""
    create_topic(bootstrap, 2, name="timed")
    lines = "".join(
        json.dumps(
            {
                "key": "odd" if second % 2 else "even",
                "value": {"second": second},
                "headers": {"half": "first" if second <= 5 else "second"},
                "timestamp": second * 1000,
                "partition": second % 2,
            }
        )
        + "\n"
        for second in range(1, 11)
    )
    command = [*COMMAND, "produce", "timed", "-b", bootstrap, "-i", "json"]
    subprocess.run(command, input=lines.encode(), check=True, timeout=60, env=node_environment())
    return "timed"


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        (["--from", "4000", "-e"], {4, 5, 6, 7, 8, 9, 10}),
        (["--from", "1970-01-01T00:00:04", "--to", "1970-01-01T00:00:07"], {4, 5, 6}),
        (["--to", "3000"], {1, 2}),
        (["--last", "3", "-e"], [8, 9, 10]),
        (["--last", "99", "-e"], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (["--last", "2", "--key", "odd", "-e"], [7, 9]),
        (["--last", "2", "--filter", "json.second <= 4", "-e"], [3, 4]),
        (["--partition", "1", "--last", "2", "-e"], [7, 9]),
        (["--partition", "0", "--offset", "3", "-e"], [8, 10]),
        (["--from", "1m", "-e"], set()),
        (["--from", "latest", "-e"], set()),
        (["-e", "--key", "even"], {2, 4, 6, 8, 10}),
        (["-e", "--header", "half=second", "--filter", "json.second != 7 and partition == 1"], {9}),
        (["-F", "--filter", "json.second > 3", "--partition", "0", "-n", "2"], [4, 6]),
        (["-e", "-g", "of-timed", "-F"], {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
        (["-e", "-g", "late-of-timed", "--from", "9000"], {9, 10}),
    ],
)
def test_where_reading_begins_and_ends(
    timed: str, call: Call, options: list[str], seconds: set[int] | list[int]
) -> None:
    answer = call("consume", timed, *options, "--format", r"%s\n")
    assert answer.code == 0, answer.err
    seconds_read = [record["second"] for record in answer.objects]
    assert (seconds_read if isinstance(seconds, list) else set(seconds_read)) == seconds
    assert len(seconds_read) == len(seconds)
    assert answer.err == f"Processed a total of {len(seconds)} messages\n"


def test_several_topics_at_once(bootstrap: str, timed: str, call: Call) -> None:
    create_topic(bootstrap, 1, name="beside")
    call("produce", "beside", stdin=b"x\n")
    assert set(call("consume", timed, "beside", "-e", "-f", r"%t\n").out.split()) == {b"timed", b"beside"}
    assert set(call("consume", "--include", "(timed|beside)", "-e", "-f", r"%t\n").out.split()) == {b"timed", b"beside"}


def test_only_the_printed_records_are_committed(bootstrap: str, call: Call) -> None:
    create_topic(bootstrap, 1, name="halves")
    call("produce", "halves", stdin=b"a\nb\na\nb\n")
    first = call("consume", "halves", "-F", "-g", "of-halves", "--filter", "value == 'a'", "-n", "1", "--format", "%o ")
    second = call("consume", "halves", "-e", "-g", "of-halves", "--format", "%o ")
    assert (first.out, second.out) == (b"0 ", b"1 2 3 ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["timde"], "There is no topic 'timde'. Did you mean 'timed'? --wait waits for it."),
        (["timed", "x-y-z", "timde"], "There is no topic 'x-y-z'. There is no topic 'timde'. Did you mean 'timed'?"),
        (["--include", "x-y-.*"], "No topic matches 'x-y-.*'. 'ottla topics list' shows all topics; --wait waits"),
        (["--include", "["], "--include '[' is not a regular expression"),
        (["timed", "--partition", "7"], "There is no partition timed-7."),
    ],
)
def test_topics_that_do_not_exist_are_one_message(timed: str, call: Call, words: list[str], said: str) -> None:
    assert timed == "timed"
    answer = call("consume", *words)
    assert (answer.code, answer.out, answer.err.count("\n")) == (1, b"", 1)
    assert answer.err.startswith(f"ottla: {said}")
    assert not {"timde", "x-y-z"} & set(call("topics", "list").out.decode().split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["timed", "--from", "x"], "no point in time"),
        (["timed", "--from", "1m", "--last", "5"], "--from and --last exclude each other"),
        (["timed", "--last", "5", "-g", "g"], "--last reads without a group"),
        (["timed", "--format", "%s", "--json"], "exclude each other"),
        (["timed", "--format", "%q"], "no token %q"),
        (["timed", "--filter", "vlaue"], "Did you mean 'value'"),
    ],
)
def test_lines_that_make_no_sense(call: Call, words: list[str], said: str) -> None:
    answer = call("consume", *words)
    assert answer.code == 2
    assert said in answer.err


class Process:
    def __init__(self, *words: str, stdout: int = subprocess.PIPE) -> None:
        with heeded(signal.SIGINT):
            self.process = subprocess.Popen(
                [*COMMAND, *words], stdout=stdout, stderr=subprocess.PIPE, env=node_environment()
            )

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> tuple[int, bytes]:
        try:
            _, err = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
        return self.process.returncode, err


def test_a_reader_that_goes_away_ends_it(bootstrap: str, timed: str) -> None:
    reader, writer = os.pipe()
    consumer = Process("consume", timed, "-b", bootstrap, "-F", "--format", r"%s\n", stdout=writer)
    os.close(writer)
    # All records are printed and no more will come: the command writes nothing after the reader has gone.
    read = b""
    while read.count(b"\n") < 10:
        read += os.read(reader, 1000)
    os.close(reader)
    assert consumer.end() == (1, b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_in_order(bootstrap: str, timed: str, number: signal.Signals, code: int) -> None:
    consumer = Process("consume", timed, "-b", bootstrap, "-F", "--key", "odd", "--format", r"%s\n")
    for _ in range(5):
        consumer.line()
    consumer.process.send_signal(number)
    assert consumer.end() == (code, b"Processed a total of 5 messages\n")


def test_a_topic_can_be_waited_for(bootstrap: str, call: Call) -> None:
    consumer = Process("consume", "later", "-b", bootstrap, "--wait", "-F", "-n", "1")
    assert consumer.process.stderr is not None
    assert b"There is no topic 'later' yet; waiting" in consumer.process.stderr.readline()
    call("produce", "later", stdin=b"here\n")
    assert consumer.line() == b"here\n"
    assert consumer.end()[0] == 0
