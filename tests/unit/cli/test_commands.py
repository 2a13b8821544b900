"""The command line as a whole: every command is there, explains itself, and takes Kafka's flags."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest

from ottla.cli.app import root, run
from ottla.cli.examples import EXAMPLES
from ottla.cli.failures import Failure, sentence_of
from ottla.cli.logic.topic_filters import Filters, wanted_partitions
from ottla.cli.output import Output, counted, duration, say_wrong, size
from ottla.cli.start_options import read_options
from ottla.cli.table import COMMANDS, SECTIONS
from ottla.client.admin.topics import DescribedPartition, DescribedTopic
from ottla.client.errors import ClusterUnreachable
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid


def all_commands() -> dict[str, click.Command]:
    """Every command and every verb, by its words."""
    commands: dict[str, click.Command] = {}
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        commands[name] = command
        if isinstance(command, click.Group):
            commands |= {f"{name} {verb}": inner for verb, inner in command.commands.items()}
    return commands


ALL_COMMANDS = all_commands()


@pytest.mark.parametrize("words", ALL_COMMANDS)
def test_every_command_explains_itself(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMANDS[words.split()[0]].section in SECTIONS
    assert run([*words.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: ottla {words}")
    assert max(map(len, text.splitlines())) <= 80
    assert "\n  Examples:\n    " in text


# They run until stopped, draw, write files, or print a single word or script.
WITHOUT_JSON = {
    *("monitor rules", "mirror run", "mirror-maker", "lake run", "host run", "host install", "schemas hash-password"),
    *("up", "node", "connect standalone", "connect distributed", "connect new", "completion"),
    *("draw segments", "draw isr"),
    *("storage random-uuid", "storage format", "profile create", "profile use", "profile delete"),
}


def test_every_other_command_has_json() -> None:
    leaves = {words: command for words, command in ALL_COMMANDS.items() if not isinstance(command, click.Group)}
    assert {
        words
        for words, command in leaves.items()
        if not any("--json" in parameter.opts for parameter in command.params)
    } == WITHOUT_JSON


def test_no_example_is_of_no_command() -> None:
    assert set(EXAMPLES) == set(ALL_COMMANDS)


def command_lines(example: str) -> list[list[str]]:
    """The words of every `ottla` in an example, without pipes and redirections."""
    inner = re.fullmatch(r'eval "\$\((.*)\)"', example)
    lexer = shlex.shlex(inner[1] if inner else example, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    lines: list[list[str]] = [[]]
    for word in lexer:
        if word == "|":
            lines.append([])
        else:
            lines[-1].append(word)
    invocations = []
    for words in lines:
        end = next((number for number, word in enumerate(words) if word in ("<", ">")), len(words))
        if words[0] == "ottla":
            invocations.append(words[1:end])
    return invocations


EXAMPLE_LINES = [
    words
    for examples in EXAMPLES.values()
    for example in "\n".join(examples).replace("\\\n", "").split("\n")
    for words in command_lines(example)
]


@pytest.mark.parametrize("words", EXAMPLE_LINES, ids=" ".join)
def test_every_example_is_a_valid_command_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in words:
        if word.startswith("data/") and "." not in word:
            (tmp_path / word).mkdir(parents=True, exist_ok=True)
        if re.fullmatch(r"[\w/.-]+\.(json|properties|toml|txt|png|log|index|avsc|proto)", word):
            (tmp_path / word).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / word).write_text("")
    seen: list[str] = []

    def parse(context: click.Context, command: click.Command, rest: list[str]) -> None:
        """Parses the arguments as click does, and runs nothing."""
        if isinstance(command, click.Group):
            command.parse_args(context, rest)
            rest = [*context._protected_args, *context.args]
            verb = command.commands[rest[0]]
            parse(click.Context(verb, parent=context, info_name=rest[0]), verb, rest[1:])
            return
        command.make_context(context.info_name, rest, parent=context.parent)
        seen.append(command.name or "")

    command = root.get_command(click.Context(root), words[0])
    assert command is not None
    parse(click.Context(command, info_name=words[0]), command, words[1:])
    assert seen


def test_the_help_page_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for name in COMMANDS:
        assert f"\n  {name} " in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["topcis"], "Did you mean 'topics'?"),
        (["topics", "crate"], "create"),
        (["topics", "--create", "--list"], "exclude each other"),
        (["topics", "create", "x", "--partitions", "none"], "--partitions"),
        (["configs", "alter", "--topic", "t"], "--add-config"),
        (["perf", "produce", "--num-records", "1"], "--topic"),
        (["dump-log"], "--files"),
        (["elect-leaders", "--topic", "x"], "--partition"),
        (["consume", "t", "--offset", "3"], "--partition"),
    ],
)
def test_a_command_line_that_makes_no_sense(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ottla: ")
    assert said in captured.err


def test_a_cluster_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "list", "-b", "127.0.0.1:1", "--timeout", "1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "127.0.0.1:1" in captured.err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'x' is there."),
            "Topic 'x' is there (TOPIC_ALREADY_EXISTS). Add",
        ),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT, ""), "(REQUEST_TIMED_OUT)."),
        (Failure("No"), "No."),
        (ClusterUnreachable("Where?"), "Where?"),
        (FileNotFoundError(2, "No such file", "x.json"), "x.json: No such file."),
        (ZeroDivisionError("oops"), "OTTLA_TRACEBACK=1"),
    ],
)
def test_errors_are_sentences(error: Exception, said: str) -> None:
    assert said in sentence_of(error)


def test_completion_knows_commands_and_options() -> None:
    def complete(words: str, number: int) -> str:
        environment = {"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from ottla.cli.main import main; sys.argv[1:] = []; sys.exit(main())"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    assert "plain,topics" in complete("ottla top", 1)
    assert "plain,--exclude-internal" in complete("ottla topics list --ex", 3)


def test_completion_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert run(["completion", shell]) == 0
        assert "_OTTLA_COMPLETE" in capsys.readouterr().out


def test_tables_in_a_pipe_are_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).table(("NAME", "N"), [("x" * 150, 5), ("y", None)], right=(1,))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"{'x' * 150}  5"
    assert lines[2].split() == ["y", "-"]
    Output(as_json=True).table(("NAME",), [("x",)])
    assert capsys.readouterr().out == ""


def test_on_a_terminal_no_word_of_a_complaint_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        sentence = "What is wrong takes some words to say, and 'ottla topics list' shows more."
        say_wrong(sentence)
        terminal.flush()
        lines = os.read(ours, 1000).decode().splitlines()
    os.close(ours)
    assert max(map(len, lines)) <= 60
    assert " ".join(lines) == f"ottla: {sentence}"


def test_complaints_in_a_pipe_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say_wrong("word " * 50)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_one_is_not_many() -> None:
    assert [counted(count, "replica") for count in (0, 1, 2)] == ["0 replicas", "1 replica", "2 replicas"]


def test_sizes_and_spans() -> None:
    assert [size(count) for count in (-1, 5, 2048, 5 * 1024**3)] == ["-", "5 B", "2.0 KiB", "5.0 GiB"]
    assert [duration(span) for span in (5, 1500, 90_000, 7_300_000, 90_000_000)] == [
        "5 ms",
        "1.5 s",
        "1 min 30 s",
        "2 h 1 min",
        "1 d 1 h",
    ]


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("under_replicated_partitions", [1, 2]),
        ("unavailable_partitions", [2, 3]),
        ("under_min_isr_partitions", [2]),
        ("at_min_isr_partitions", [1]),
        ("topics_with_overrides", [0, 1, 2, 3]),
    ],
)
def test_filters_of_partitions(flag: str, expected: list[int]) -> None:
    def partition(number: int, leader: int, isr: tuple[int, ...]) -> DescribedPartition:
        return DescribedPartition(partition=number, leader=leader, leader_epoch=0, replicas=(1, 2, 3), isr=isr)

    topic = DescribedTopic(
        name="t",
        topic_id=Uuid.ONE,
        is_internal=False,
        partitions=(
            partition(0, 1, (1, 2, 3)),
            partition(1, 1, (1, 2)),
            partition(2, -1, (1,)),
            partition(3, 9, (1, 2, 3)),
        ),
    )
    partitions = wanted_partitions(topic, Filters(**{flag: True}), min_isr=2, live={1, 2, 3})
    assert [described.partition for described in partitions] == expected


def test_the_page_of_commands_is_up_to_date() -> None:
    root_directory = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "tools/generate_cli_docs.py", "--check"], cwd=root_directory, check=False)
    assert done.returncode == 0, "run: python tools/generate_cli_docs.py"


def _by_click(words: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, object] | None:
    """How click parses a line of `up` or `node`; None if click refuses the line."""
    seen: list[dict[str, object]] = []
    monkeypatch.setattr("ottla.cli.commands.run.start", lambda _, values: seen.append(values))
    return seen[0] if run(words) == 0 and seen else None


@pytest.mark.parametrize(
    "line",
    [
        "up",
        "up --nodes 3 --port 0 --data d --set a=b --set c=d=e --set x=",
        "up --port=9999 --host 0.0.0.0 --insecure --advertise=kafka.example",
        "up --host ::1",
        "node --config x.properties",
        "node --config=x.properties",
    ],
)
def test_a_start_is_read_alike_with_and_without_click(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = line.split()
    plain = read_options(words[0], words[1:])
    assert plain is not None
    by_click = _by_click(words, monkeypatch)
    assert by_click is not None
    assert {name: list(value) if isinstance(value, tuple) else value for name, value in by_click.items()} == plain


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("up --help", 0, "Usage: ottla up"),
        ("up --nodes 0", 2, "'0' is not a number of nodes."),
        ("up --nodes", 2, "'--nodes' requires an argument"),
        ("up --data", 2, "'--data' requires an argument"),
        ("up --port 70000", 2, "is not a port between 0 and 65535."),
        ("up --host 1.2.3.4:9092", 2, "without a port"),
        ("up --set x", 2, "KEY=VALUE"),
        ("up --insecure=yes", 2, "does not take a value"),
        ("up data", 2, "unexpected extra argument"),
        ("up --node 3", 2, "--nodes"),
        ("node", 2, "Missing option '--config'"),
    ],
)
def test_other_lines_are_explained_by_click(
    line: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = line.split()
    assert read_options(words[0], words[1:]) is None
    assert run(words) == code
    captured = capsys.readouterr()
    assert said in captured.out + captured.err
