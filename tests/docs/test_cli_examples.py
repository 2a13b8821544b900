"""Every example of a help page runs: the same lines, in one process, against one cluster of three nodes.

Before each example the cluster has what the example takes for granted: topics with records, a group, files. Words are
added to examples that run until they are stopped or ask a question.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla.testing
from ottla.cli.app import run
from ottla.cli.examples import EXAMPLES

# The beginning of an example, and the reason why it does not run here.
NOT_RUN = {
    "ottla up": "it runs until it is stopped; the pages of the documentation start it",
    "ottla node": "it runs until it is stopped; README.md starts it",
    "ottla connect new": "tests/connect/test_foreign_distribution.py runs it",
    "ottla connect": "it needs a worker: tests/connect/test_connector_commands.py and test_command_line.py have one",
    "ottla registry": "it runs until it is stopped; docs/registry.md starts it",
    "ottla console": "it runs until it is stopped; tests/console has some",
    "ottla schemas": "it needs a registry: tests/integration/test_cli_schemas.py has one",
    "ottla migrate": "it changes nodes: tests/integration/test_migrate.py has some",
    "ottla mirror-maker": "it runs until it is stopped: tests/mirror/test_mirror_maker.py runs it",
    "ottla host": "it runs until it is stopped: tests/integration/test_host.py runs it",
    "ottla mirror": "it needs two clusters: tests/mirror has them",
    "ottla monitor": "it runs until it is stopped: tests/integration/test_monitor.py runs it",
    "ottla reconcile": "it needs a pipeline: tests/integration/test_reconcile.py has one",
    "ottla lake": "it starts Spark: tests/lake does",
    "ottla balance": "it moves replicas: tests/integration/test_balance.py has some",
    "ottla audit": "it needs the topic of an audit: tests/integration/test_audit.py has one",
    "ottla top": "it draws on a terminal until it is stopped; README.md runs it",
    "ottla quorum add-controller": "it changes the quorum: tests/integration/test_quorum_changes.py does it",
    "ottla quorum remove-controller": "it changes the quorum: tests/integration/test_quorum_changes.py does it",
    "ottla delegation-tokens": "it needs a login: tests/integration has nodes with one",
    "ottla transactions abort": "it needs a hanging transaction: tests/java/test_cli_as_kafka.py makes one",
    "ottla certificates": "it needs a cluster of ottla up --secure: tests/integration/test_secure_up.py has one",
    "ottla keys re-encrypt": "docs/security.md runs it",
    "ottla keys list --file": "it is a file of the system",
    "ottla keys create orders --file": "it is a file of the system",
    "ottla cluster unregister": "there is no fourth broker: tests/java/test_cli_as_kafka.py has one to lose",
    "ottla dump-log data/orders-0/00000000000000000000.index": "a segment of a few records has no index yet",
    "ottla features downgrade": "new clusters have the lowest level that can be chosen",
    "ottla features disable": "the feature is off in new clusters",
}
# The beginning of an example, and the words that make it end here; the last value of an option counts.
ADDED = {
    "ottla consume orders --from-beginning": "--max-messages 2",
    "ottla consume orders --filter": "--from-beginning --max-messages 1",
    "ottla consume orders returns": "--max-messages 2",
    "ottla consume orders --group": "--from-beginning --max-messages 1",
    "ottla consume orders --last": "--exit",
    "seq 1000 | ottla produce ticks": "--rate 1000000",
    "ottla topics delete orders": "--yes",
    "ottla delete-records": "--yes",
    "ottla profile delete": "--yes",
    "ottla groups delete-offsets": "--yes",
    "ottla perf produce": "--num-records 100 --throughput 100000",
    "ottla perf consume": "--num-records 100",
    "ottla perf end-to-end": "--num-records 10",
    "ottla verifiable-producer": "--max-messages 10",
    "ottla verifiable-consumer": "--max-messages 1",
    "ottla doctor": "--seconds 0",
    "ottla reassign execute": "--yes",
    "ottla transactions forceTerminateTransaction": "--yes",
}
# Examples that end with another code than 0 because there is nothing to do.
OTHER_CODES = {
    "ottla elect-leaders --election-type unclean": 1,
    # Its partitions have fewer records.
    "ottla delete-records orders:0:1500 orders:1:900": 1,
}
TOPICS = ("orders", "returns", "bench", "images", "checked", "copy", "test-1")
LINES = 'alice:{"amount": 150}\nbob:{"amount": 20}\n'


def examples() -> list[str]:
    """Each line once, in the order of the help pages; a line that ends in a backslash goes on in the next."""
    texts = ["\n".join(lines).replace("\\\n", " ") for lines in EXAMPLES.values()]
    return list(dict.fromkeys(" ".join(line.split("  ")) for text in texts for line in text.splitlines()))


def entry(table: dict[str, str], example: str) -> str | None:
    return next((text for beginning, text in table.items() if f"{example} ".startswith(f"{beginning} ")), None)


RUN = [example for example in examples() if entry(NOT_RUN, example) is None]


class Shell:
    """Runs lines with pipes and redirections, each `ottla` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def run(self, line: str, standard_input: str = "") -> tuple[int, str]:
        """The exit code of the last command, and its output."""
        code, text = 0, standard_input
        for part in line.split(" | "):
            words = shlex.split(part)
            target = words[words.index(">") + 1] if ">" in words else None
            if "<" in words:
                text = Path(words[words.index("<") + 1]).read_text()
            words = (
                words[: min(words.index(mark) for mark in "<>" if mark in words)] if {"<", ">"} & {*words} else words
            )
            code, text = self._command(words, text)
            if target is not None:
                Path(target).write_text(text)
        return code, text

    def _command(self, words: list[str], standard_input: str) -> tuple[int, str]:
        if words[0] == "echo":
            return 0, " ".join(words[1:]) + "\n"
        if words[0] == "seq":
            return 0, "".join(f"{number}\n" for number in range(1, int(words[1]) + 1))
        assert words[0] == "ottla"
        output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        source = Path("standard-input")
        source.write_text(standard_input)
        with source.open() as file:
            self._monkeypatch.setattr(sys, "stdin", file)
            self._monkeypatch.setattr(sys, "stdout", output)
            code = run(words[1:])
        assert isinstance(output.buffer, io.BytesIO)
        return code, output.buffer.getvalue().decode()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[ottla.testing.Cluster]:
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    settings = {**authorizer, "super.users": "User:ANONYMOUS", "num.partitions": "3"}
    with ottla.testing.cluster(nodes=3, settings=settings) as running:
        yield running


@pytest.fixture
def shell(cluster: ottla.testing.Cluster, place: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(place)
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", cluster.bootstrap)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    return Shell(monkeypatch)


def prepare(shell: Shell, example: str, cluster: ottla.testing.Cluster) -> None:
    """Makes what the example takes for granted, and removes what it is going to make."""
    Path("orders.txt").write_text(LINES)
    Path("client.properties").write_text("client.id=example\n")
    for picture in ("cat.png", "dog.png"):
        Path(picture).write_bytes(b"\x89PNG")
    makes = next((name for name in ("orders", "users") if f"create {name}" in example), None)
    if makes is not None:
        shell.run(f"ottla topics delete {makes} --yes")
    for name in TOPICS:
        # A copy keeps the numbers of partitions, of which an earlier example makes 12.
        if (name in example or name.partition("-")[0] + "-.*" in example) and name != makes:
            created, _ = shell.run(f"ottla topics create {name} --partitions {12 if name == 'copy' else 6}")
            if created == 0:
                shell.run(f"ottla produce {name} --key-separator :", LINES)
    if "readers" in example:
        shell.run("ottla consume orders --group readers --from-beginning --max-messages 1")
    if "billing" in example:
        make_transaction(cluster, "billing")
    if "plan.json" in example and ">" not in example:
        Path("plan.json").write_text(PLAN)
    if "profile create prod" in example:
        shell.run("ottla profile delete prod --yes")
    if "roles create order-writer" in example:
        shell.run("ottla roles delete order-writer --yes")
    elif "order-writer" in example:
        shell.run(next(line for line in EXAMPLES["roles create"] if "order-writer" in line))
        if "unbind" in example:
            shell.run("ottla roles bind order-writer --principal User:bob")
    if "storage format" in example:
        Path("node.properties").write_text(NEW_NODE)
    if "profile use" in example or "profile show" in example or "profile delete" in example:
        shell.run("ottla profile create prod -b broker:9092 --replace")
        shell.run("ottla profile use prod")
    if "keys" in example and "create" not in example:
        shell.run("ottla keys create orders")
        if "retire" in example:
            shell.run("ottla keys rotate orders")


PLAN = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 2, 1]}]}'

NEW_NODE = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
log.dirs=new-node
"""


def make_transaction(cluster: ottla.testing.Cluster, name: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("billing", value=b"1")
    producer.commit_transaction(60)


def place_files(example: str, cluster: ottla.testing.Cluster) -> str:
    """The example with the paths of this cluster: a page has its node in ./data, here it is elsewhere."""
    node = Path(cluster.node(1).directory)
    example = example.replace("data/node-1", str(node))
    if "storage format" not in example:
        example = example.replace("--config node.properties", f"--config {node}/node.properties")
    if "dump-log" in example:
        example = example.replace("data/orders-0", str(node / "data" / "orders-0"))
    if "controller localhost:9093" in example:
        voter = cluster.node(1).properties()["controller.quorum.voters"].split(",")[0]
        example = example.replace("localhost:9093", voter.partition("@")[2])
    return example


@pytest.mark.parametrize("example", RUN)
def test_an_example_of_a_help_page(
    example: str, shell: Shell, cluster: ottla.testing.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(shell, example, cluster)
    capsys.readouterr()
    inner = example.removeprefix('eval "$(').removesuffix(')"')
    line = place_files(f"{inner} {entry(ADDED, example) or ''}".strip(), cluster)
    code, output = shell.run(line)
    assert code == int(entry({k: str(v) for k, v in OTHER_CODES.items()}, example) or 0), (
        f"$ {line}\n{output}{capsys.readouterr().err}"
    )


def test_every_reason_and_addition_is_still_about_an_example() -> None:
    for beginning in (*NOT_RUN, *ADDED, *OTHER_CODES):
        assert any(f"{example} ".startswith(f"{beginning} ") for example in examples()), beginning
    assert os.environ.get("OTTLA_BOOTSTRAP_SERVER") is None
