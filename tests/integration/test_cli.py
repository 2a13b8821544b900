"""The `ottla` command as users and scripts run it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla
import ottla.testing
from ottla.cli.main import main
from ottla.cli.up import NEXT_STEPS, up
from ottla.testing.clusters import node_environment
from tests.integration.cluster_calls import wait_until
from tests.integration.group_members import create_topic, fill

COMMAND = [sys.executable, "-m", "ottla.cli.main"]


class Started:
    def __init__(self, *arguments: str, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=node_environment(),
        )
        self.lines: list[str] = []

    def wait_until_ready(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("ready"):
                return line.split()[1]
        raise AssertionError(self.process.communicate()[1])

    def read_until(self, end: str) -> list[str]:
        """The next lines of standard output, up to the first line with this end."""
        assert self.process.stdout is not None
        lines: list[str] = []
        while not lines or (lines[-1] and not lines[-1].rstrip("\n").endswith(end)):
            lines.append(self.process.stdout.readline())
        return lines

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Started]]:
    running: list[Started] = []
    yield running
    for command in running:
        if command.process.poll() is None:
            os.killpg(command.process.pid, signal.SIGKILL)
        command.process.communicate()


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=node_environment(),
    )


def start(started: list[Started], *arguments: str, cwd: Path) -> Started:
    command = Started(*arguments, cwd=cwd)
    started.append(command)
    return command


@contextlib.contextmanager
def heeded(number: signal.Signals) -> Iterator[None]:
    """Resets the signal to its default, which child processes inherit: under `nohup` it may be ignored."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_up_says_ready_serves_and_stops_cleanly(started: list[Started], tmp_path: Path, number: signal.Signals) -> None:
    with heeded(number):
        up = start(started, "up", "--port", "0", "--data", "d", cwd=tmp_path)
    host, _, port = up.wait_until_ready().partition(":")
    node = tmp_path / "d" / "node-1"
    assert int((node / "node.pid").read_text()) == up.process.pid
    assert f"listeners=PLAINTEXT://127.0.0.1:{port}" in (node / "node.properties").read_text()
    with socket.create_connection((host, int(port)), timeout=30):
        pass
    code, errors = up.stop(number)
    assert code == 0
    assert "Traceback" not in errors
    assert not (node / "node.pid").exists()
    assert (node / "data" / ".kafka_cleanshutdown").exists()


def test_up_without_settings_shows_what_to_try_next(started: list[Started], tmp_path: Path) -> None:
    up = start(started, "up", "--port", "0", cwd=tmp_path)
    bootstrap = up.wait_until_ready()
    # The whole text is written at once.
    output = "".join(up.read_until("Ctrl-C stops the cluster."))
    assert output.endswith(NEXT_STEPS.format(bootstrap=bootstrap, data=tmp_path / "data") + "\n")
    assert up.stop(signal.SIGTERM)[0] == 0
    assert (tmp_path / "data" / "node-1" / "data" / "meta.properties").exists()
    again = start(started, "up", "--port", bootstrap.partition(":")[2], "--set", "num.partitions=7", cwd=tmp_path)
    assert again.wait_until_ready() == bootstrap
    assert again.stop(signal.SIGTERM)[0] == 0


def test_a_node_starts_from_the_properties_that_up_wrote(started: list[Started], tmp_path: Path) -> None:
    up = start(started, "up", "--port", "0", "--data", "d", "--set", "num.partitions=3", cwd=tmp_path)
    bootstrap = up.wait_until_ready()
    up.stop(signal.SIGTERM)
    node = start(started, "node", "--config", "d/node-1/node.properties", cwd=tmp_path)
    assert node.wait_until_ready() == bootstrap
    assert node.stop(signal.SIGTERM)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("up", "--port", "0", "--set", "num.partitions=many"), 1, "num.partitions"),
        (("up", "--port", "0", "--set", "node.id"), 2, "KEY=VALUE"),
        (("up", "--port", "70000"), 2, "port between 0 and 65535"),
        (("up", "--nodes", "0"), 2, "number of nodes"),
        (("up", "--set", "log.retention.huors=24"), 2, "Did you mean log.retention.hours?"),
        (("up", "--set", "retention.ms=24"), 2, "brokers have log.retention.ms"),
        (("up", "--host", "0.0.0.0"), 2, "PLAINTEXT://0.0.0.0:9092: everyone who reaches this address"),
        (("up", "--nodes", "2", "--host", "0.0.0.0", "--port", "0"), 2, "Add --insecure"),
        (("up", "--set", "listeners=PLAINTEXT://:0,CONTROLLER://127.0.0.1:0"), 2, "Add --insecure"),
        (("node", "--config", "missing.properties"), 1, "Cannot read missing.properties: No such file"),
        (("node", "--config", "odd.properties"), 1, "log.segment.bytes"),
        (("nonsense",), 2, "nonsense"),
        ((), 2, "COMMAND"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    (tmp_path / "odd.properties").write_text("node.id=1\nlog.segment.bytes=-5\n")
    completed = run(*arguments, cwd=tmp_path)
    assert completed.returncode == code, completed.stderr
    assert sentence in completed.stderr
    assert "Traceback" not in completed.stderr
    if code == 1:
        assert re.fullmatch(r"ottla: .*\.\n", completed.stderr), completed.stderr


@pytest.mark.parametrize("nodes", [1, 2])
def test_another_address_is_advertised_and_warned_of(started: list[Started], tmp_path: Path, nodes: int) -> None:
    # Every address in 127.0.0.0/8 is this machine.
    address_options = ("--host", "0.0.0.0", "--advertise", "127.0.0.77", "--insecure")
    up = start(started, "up", "--nodes", str(nodes), "--port", "0", *address_options, cwd=tmp_path)
    addresses = up.wait_until_ready().split(",")
    assert {address.partition(":")[0] for address in addresses} == {"127.0.0.77"}
    # A client that connects to any address gets the advertised addresses.
    port = addresses[0].partition(":")[2]
    cluster = AdminClient({"bootstrap.servers": f"127.0.0.5:{port}"}).list_topics(timeout=30)
    assert {f"{broker.host}:{broker.port}" for broker in cluster.brokers.values()} == set(addresses)
    code, errors = up.stop(signal.SIGTERM)
    assert code == 0
    assert errors.startswith("ottla: Warning: PLAINTEXT://0.0.0.0:")
    assert "everyone who reaches this address can read" in errors


def test_a_key_that_no_broker_knows_is_a_warning_with_a_suggestion_in_a_file(
    started: list[Started], tmp_path: Path
) -> None:
    (tmp_path / "node.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:0\n"
        f"log.dirs={tmp_path / 'data'}\nlog.retention.huors=24\n"
    )
    node = start(started, "node", "--config", "node.properties", cwd=tmp_path)
    node.wait_until_ready()
    _, errors = node.stop(signal.SIGTERM)
    (warning,) = [line for line in errors.splitlines() if "WARN" in line]
    assert (
        "log.retention.huors is ignored: it is not a broker configuration. Did you mean log.retention.hours?" in warning
    )


def test_a_level_of_logs_that_does_not_exist_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTTLA_LOG_LEVEL", "loud")
    assert up(nodes=1, port=0, data=str(tmp_path), set={}) == 1
    message = "ottla: OTTLA_LOG_LEVEL is LOUD, but it must be one of FATAL, ERROR, WARN, INFO, DEBUG, TRACE.\n"
    assert capfd.readouterr().err == message


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        completed = run("up", "--port", str(port), cwd=tmp_path)
    assert completed.returncode == 1
    assert f"Port {port} is in use by another process" in completed.stderr
    assert "Traceback" not in completed.stderr


def test_a_second_node_on_the_same_data_refuses_to_start(started: list[Started], tmp_path: Path) -> None:
    up = start(started, "up", "--port", "0", "--data", "d", cwd=tmp_path)
    up.wait_until_ready()
    second = run("up", "--port", "0", "--data", "d", cwd=tmp_path)
    assert second.returncode == 1
    assert re.fullmatch(r"ottla: Another 'ottla up' is using the data directory d\.\n", second.stderr)
    # The same directory through the other command, on another port.
    properties = (tmp_path / "d" / "node-1" / "node.properties").read_text()
    properties = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", properties)
    (tmp_path / "other.properties").write_text(properties)
    third = run("node", "--config", "other.properties", cwd=tmp_path)
    assert third.returncode == 1
    assert "locked by another process" in third.stderr
    assert "Traceback" not in third.stderr
    assert up.process.poll() is None


def test_the_directory_of_another_node_is_refused(started: list[Started], tmp_path: Path) -> None:
    up = start(started, "up", "--port", "0", "--data", "d", cwd=tmp_path)
    up.wait_until_ready()
    up.stop(signal.SIGTERM)
    other = run("up", "--port", "0", "--data", "d", "--set", "node.id=2", "--set",
                "controller.quorum.voters=2@127.0.0.1:0", cwd=tmp_path)  # fmt: skip
    assert other.returncode == 1
    assert "belongs to node 1" in other.stderr
    assert "Traceback" not in other.stderr


def test_up_with_several_nodes_is_one_cluster(started: list[Started], tmp_path: Path) -> None:
    up = start(started, "up", "--nodes", "3", "--port", "0", "--data", "d", cwd=tmp_path)
    bootstrap = up.wait_until_ready()
    admin = AdminClient({"bootstrap.servers": bootstrap.partition(",")[0], "log_level": 0})
    # Every node reports itself ready; the other nodes learn of it a moment later.
    wait_until(lambda: len(admin.list_topics(timeout=30).brokers) == 3, "the first node knows all three")
    brokers = admin.list_topics(timeout=30).brokers
    assert {f"{broker.host}:{broker.port}" for broker in brokers.values()} == set(bootstrap.split(","))
    assert sorted(brokers) == [1, 2, 3]
    directories = [tmp_path / "d" / f"node-{node_id}" for node_id in (1, 2, 3)]
    for directory in directories:
        assert is_alive(int((directory / "node.pid").read_text()))
        assert "node.id=" + directory.name[-1] in (directory / "node.properties").read_text()
    pids = [int((directory / "node.pid").read_text()) for directory in directories]
    code, errors = up.stop(signal.SIGTERM)
    assert (code, "Traceback" in errors) == (0, False), errors
    assert not any(is_alive(pid) for pid in pids)
    assert all((directory / "data" / ".kafka_cleanshutdown").exists() for directory in directories)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_nodes_do_not_outlive_the_process_that_started_them(started: list[Started], tmp_path: Path) -> None:
    up = start(started, "up", "--nodes", "2", "--port", "0", "--data", "d", cwd=tmp_path)
    up.wait_until_ready()
    pids = [int((tmp_path / "d" / f"node-{number}" / "node.pid").read_text()) for number in (1, 2)]
    up.process.kill()
    deadline = time.monotonic() + 120
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "nodes live on, with their ports and directories"
        time.sleep(0.01)


def test_a_cluster_outlives_one_of_its_nodes(started: list[Started], tmp_path: Path) -> None:
    settings = ("--set", "broker.session.timeout.ms=3000", "--set", "broker.heartbeat.interval.ms=300")
    up = start(started, "up", "--nodes", "3", "--port", "0", "--data", "d", *settings, cwd=tmp_path)
    bootstrap = up.wait_until_ready()
    # As many replicas as a new topic gets there.
    topic = create_topic(bootstrap, 3, replicas=-1)
    victim = tmp_path / "d" / "node-2"
    os.kill(int((victim / "node.pid").read_text()), signal.SIGKILL)
    fill(bootstrap, topic, [10, 10, 10])
    again = start(started, "node", "--config", str(victim / "node.properties"), cwd=tmp_path)
    again.wait_until_ready()
    fill(bootstrap, topic, [10, 10, 10])
    assert again.stop(signal.SIGTERM)[0] == 0
    code, errors = up.stop(signal.SIGTERM)
    assert (code, "Traceback" in errors) == (0, False), errors
    assert (
        "Node 2 has ended with exit code -9, the other nodes continue. To start it again: ottla node --config" in errors
    )


def test_a_cluster_is_not_started_with_fewer_controllers_than_it_needs(tmp_path: Path) -> None:
    directory = tmp_path / "d" / "node-1"
    directory.mkdir(parents=True)
    written = "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3\n"
    (directory / "node.properties").write_text(written)
    completed = run("up", "--port", "0", "--data", "d", cwd=tmp_path)
    assert completed.returncode == 1
    assert re.fullmatch(r"ottla: The cluster in d has 3 controllers, .* start it with --nodes 3\.\n", completed.stderr)
    # The file is unchanged, so the right command still finds all nodes.
    assert (directory / "node.properties").read_text() == written


def test_when_one_of_several_nodes_cannot_start_the_others_stop(started: list[Started], tmp_path: Path) -> None:
    # Node 2 cannot start: its directory belongs to another cluster.
    (tmp_path / "d" / "node-2" / "data").mkdir(parents=True)
    meta = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=77\ndirectory.id=AAAAAAAAAAAAAAAAAAAAZg\n"
    (tmp_path / "d" / "node-2" / "data" / "meta.properties").write_text(meta)
    completed = run("up", "--nodes", "2", "--port", "0", "--data", "d", cwd=tmp_path)
    assert completed.returncode == 1
    assert "ottla: Node 2 has ended with exit code 1, so the others stop.\n" in completed.stderr
    assert "Traceback" not in completed.stderr
    assert not (tmp_path / "d" / "node-1" / "node.pid").exists()


def test_version_and_help(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout == f"ottla {ottla.__version__}\n"
    text = run("--help", cwd=tmp_path).stdout
    assert "up" in text
    assert "node" in text


def test_start_is_quick_and_small(started: list[Started], tmp_path: Path) -> None:
    up = start(started, "up", "--port", "0", "--set", "num.partitions=1", cwd=tmp_path)
    up.wait_until_ready()
    process = psutil.Process(up.process.pid)
    # CPU time does not depend on other processes. The limit is generous: the benchmark measures the real figure.
    times = process.cpu_times()
    assert times.user + times.system < 2
    assert process.memory_info().rss < 39 * 2**20


def test_a_server_properties_file_of_kafka_is_read_as_it_is(started: list[Started], tmp_path: Path) -> None:
    # The keys that Kafka's sample configuration for a combined node sets, with free ports.
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listeners": "PLAINTEXT://:0,CONTROLLER://:0",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://localhost:0,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "socket.request.max.bytes": "104857600",
        "log.dirs": str(tmp_path / "combined-logs"),
        "num.partitions": "1",
        "num.recovery.threads.per.data.dir": "2",
        "offsets.topic.replication.factor": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "log.retention.check.interval.ms": "300000",
    }
    text = "# Licensed\n\n" + "".join(f"{key}={value}\n" for key, value in properties.items())
    (tmp_path / "server.properties").write_text(text)
    node = start(started, "node", "--config", "server.properties", cwd=tmp_path)
    host, _, port = node.wait_until_ready().partition(":")
    with socket.create_connection((host, int(port)), timeout=30):
        pass
    code, errors = node.stop(signal.SIGTERM)
    assert code == 0
    # The only warning: its listeners are open to other machines.
    (warning,) = [line for line in errors.splitlines() if "WARN" in line]
    assert "clients need no credentials for PLAINTEXT://:0" in warning
    assert not (tmp_path / "node.pid").exists()


def test_keys_that_change_nothing_here_are_said_once_each(started: list[Started], tmp_path: Path) -> None:
    set_otherwise = {"num.network.threads": "9", "background.threads": "11", "metrics.recording.level": "DEBUG"}
    text = "".join(f"{key}={value}\n" for key, value in set_otherwise.items())
    (tmp_path / "node.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:0\n"
        # A key that is set to Kafka's default is not reported.
        f"log.dirs={tmp_path / 'data'}\nmetrics.num.samples=2\n{text}"
    )
    node = start(started, "node", "--config", "node.properties", cwd=tmp_path)
    node.wait_until_ready()
    code, errors = node.stop(signal.SIGTERM)
    assert code == 0
    words = [line.split(" ", 4) for line in errors.splitlines() if " has no effect: " in line]
    assert {line[2] for line in words} == {"INFO"}
    assert sorted(line[4].partition(" ")[0] for line in words) == sorted(set_otherwise)
    assert all(re.fullmatch(r"\S+ has no effect: .+\.", line[4]) for line in words)


@pytest.fixture(scope="module")
def named_things() -> Iterator[str]:
    """The address of a node with the topics `orders` and `returns`, and a group `readers`."""
    with ottla.testing.cluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for name in ("orders", "returns"):
            create_topic(cluster.bootstrap, 1, name=name)
        offsets = ConsumerGroupTopicPartitions("readers", [TopicPartition("orders", 0, 0)])
        for future in admin.alter_consumer_group_offsets([offsets]).values():
            future.result(timeout=60)
        yield cluster.bootstrap


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ottla topics describe -b {} ", {"orders", "returns"}),
        ("ottla topics describe -b {} or", {"orders"}),
        ("ottla topics --describe --bootstrap-server {} --topic re", {"returns"}),
        ("ottla topics describe -b {} orders ", {"returns"}),
        ("ottla topics describe -b {} __consumer", {"__consumer_offsets"}),
        ("ottla log-dirs -b {} --topic-list orders,r", {"orders,returns"}),
        ("ottla groups describe -b {} ", {"readers"}),
        ("ottla consume -b {} --group rea", {"readers"}),
        ("ottla topics --descr", {"--describe"}),
        ("ottla up --no", {"--nodes"}),
        ("ottla node --", {"--config", "--help"}),
        # Without a cluster and with a malformed line, nothing is offered and nothing is printed.
        ("ottla topics describe -b 127.0.0.1:1 ", set()),
        ("ottla topics describe -b nowhere:port:9 ", set()),
        ("ottla topics --create --delete ", set()),
        ("ottla nonsense ", set()),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_names_of_the_cluster(
    named_things: str,
    line: str,
    offered: set[str],
    shell: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # On a busy machine the completion may take longer than a user would wait.
    monkeypatch.setattr("ottla.cli.names._PATIENCE_MS", 20_000)
    words = line.format(named_things).split(" ")
    monkeypatch.setenv("_OTTLA_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    # fish passes the unfinished word, bash and zsh pass its index.
    monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words) - 1))
    main([])
    captured = capfd.readouterr()
    assert captured.err == ""
    lines = captured.out.strip().splitlines()
    if shell == "zsh":
        # zsh gets three lines per candidate: the kind, the word, its help.
        assert set(lines[1::3]) == offered
    else:
        # fish gets the help of an option behind a tab.
        assert {candidate.partition(",")[2].partition("\t")[0] for candidate in lines} == offered


def test_bash_itself_completes_names(named_things: str, tmp_path: Path) -> None:
    program = tmp_path / "ottla"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla.cli.main "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(ottla completion bash)"; COMP_WORDS=(ottla consume -b "$1" or); COMP_CWORD=4; '
        '_ottla_completion ottla; echo "${COMPREPLY[*]}"'
    )
    environment = {**node_environment(), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", "-c", script, "bash", named_things]
    for _ in range(5):
        # If the cluster takes longer than a second, nothing is offered, and the user presses the key again.
        completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        if completed.stdout != "\n":
            break
    assert (completed.stdout, completed.stderr) == ("orders\n", "")
