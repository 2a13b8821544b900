"""Secrets are planted in every setting that takes one; then all output of a node and its tools is searched for them."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from ottla.host.free_ports import free_ports
from tests.support.brokers import OttlaFromFile

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# Every planted value has this text in it.
MARK = "planted-secret"


class PlantedNode:
    """A node with a SASL listener whose secrets are partly references and partly in its file."""

    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        self.directory = directory
        secrets = directory / "secrets.properties"
        secrets.write_text(f"alice={MARK}-alice\nregistry.token={MARK}-token\n")
        secrets.chmod(0o600)
        self.node = OttlaFromFile(directory / "node", {"listeners": ""})
        inside = self.node.listeners
        self.address = f"127.0.0.1:{port}"
        self.node.settings |= {
            "listeners": f"{inside},CLIENTS://{self.address}",
            "advertised.listeners": f"{inside.split(',')[0]},CLIENTS://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The type of this key is not a password, but its value refers to a secret.
            "super.users": "User:ANONYMOUS;User:alice;User:${env:OTTLA_PLANTED}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "connection.failed.authentication.delay.ms": "0",
            "ottla.metrics.listener": "127.0.0.1:0",
            "listener.name.clients.plain.sasl.jaas.config": (
                f'{PLAIN} required username="x" password="{MARK}-own" '
                f'user_alice="${{file:{secrets}:alice}}" user_bob="${{env:OTTLA_PLANTED}}";'
            ),
            # An unknown key may be the secret of a plug-in; the value of this key is also a reference.
            "registry.token": f"${{file:{secrets}:registry.token}}",
            "registry.password": f"{MARK}-registry",
        }

    def settings(self, user: str, password: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password,
        }

    def file(self, name: str, lines: dict[str, str]) -> str:
        path = self.directory / name
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return str(path)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlantedNode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_PLANTED", f"{MARK}-bob")
        patch.setenv("OTTLA_ALICE", f"{MARK}-alice")
        patch.setenv("OTTLA_LOG_LEVEL", "DEBUG")
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        planted = PlantedNode(tmp_path_factory.mktemp("planted"))
        with planted.node:
            yield planted


def ottla(*words: str) -> str:
    """The exit code and all output of a command."""
    completed = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", *words], capture_output=True, text=True, timeout=120
    )
    return f"$ ottla {words[0]} ... ended with {completed.returncode}\n{completed.stdout}{completed.stderr}"


def test_references_work_and_no_output_has_a_secret(planted: PlantedNode) -> None:
    for user in ("alice", "bob"):
        admin = AdminClient(planted.settings(user, f"{MARK}-{user}"))
        assert admin.list_topics(timeout=60).cluster_id
    broker, inside = str(planted.node.settings.get("node.id", 1)), planted.node.bootstrap
    right = planted.file("right.properties", planted.settings("alice", "${env:OTTLA_ALICE}"))
    wrong = planted.file("wrong.properties", planted.settings("alice", f"{MARK}-wrong"))
    outputs = [
        ottla(
            "configs", "-b", inside, "alter", "--broker-logger", broker, "--add-config", "kafka.request.logger=DEBUG"
        ),
        ottla(
            "configs",
            "-b",
            inside,
            "alter",
            "--user",
            "carol",
            "--add-config",
            f"SCRAM-SHA-256=[password={MARK}-carol]",
        ),
        ottla("configs", "-b", inside, "describe", "--user", "carol"),
        ottla("configs", "-b", inside, "describe", "--broker", broker, "--all"),
        ottla("configs", "-b", inside, "describe", "--broker", broker, "--all", "--json"),
        ottla("doctor", "--command-config", right),
        ottla("doctor", "--command-config", right, "--json"),
        ottla("doctor", "--config", str(planted.node.directory / "server.properties")),
        ottla("topics", "list", "--command-config", right),
        ottla("topics", "list", "--command-config", wrong),
        ottla("profile", "create", "planted", "--command-config", wrong),
        ottla("profile", "show", "planted"),
        ottla("profile", "list", "--json"),
        ottla("topics", "list", "--profile", "planted"),
    ]
    assert "ended with 0" in outputs[8], outputs[8]
    assert "ended with 1" in outputs[9], outputs[9]
    admin = AdminClient({"bootstrap.servers": inside})
    for future in admin.describe_configs([ConfigResource(ResourceType.BROKER, broker)]).values():
        outputs += [f"{name}={entry.value} {entry.synonyms}" for name, entry in future.result(60).items()]
    outputs.append(failed_login(planted))
    planted.node.stop()
    outputs.append((planted.node.directory / "output.txt").read_text(errors="replace"))
    outputs += [
        ottla("dump-log", "--cluster-metadata-decoder", "--files", str(path))
        for path in planted.node.directory.rglob("__cluster_metadata-0/*.log")
    ]
    leaks = [text for text in outputs if MARK in text]
    assert leaks == []
    planted.node.start()


def failed_login(planted: PlantedNode) -> str:
    errors: list[str] = []
    admin = AdminClient(
        {**planted.settings("alice", f"{MARK}-wrong"), "error_cb": lambda error: errors.append(str(error))}
    )
    with pytest.raises(confluent_kafka.KafkaException) as failure:
        admin.list_topics(timeout=1)
    return f"{failure.value} {errors}"


def test_an_invalid_value_is_refused_without_being_shown(planted: PlantedNode) -> None:
    lines = (planted.node.directory / "server.properties").read_text()
    path = planted.directory / "invalid.properties"
    for extra in ("num.io.threads=${env:OTTLA_PLANTED}", f"sasl.jaas.config={MARK}", "log.dirs=${env:OTTLA_NONE}"):
        path.write_text(f"{lines}\n{extra}\n")
        output = ottla("node", "--config", str(path)) + ottla("doctor", "--config", str(path))
        assert MARK not in output
        assert extra.partition("=")[0] in output


def test_other_users_cannot_read_what_a_node_writes(planted: PlantedNode) -> None:
    written = [path for path in planted.node.log_directory.rglob("*") if not path.is_symlink()]
    assert written
    assert [path for path in written if path.stat().st_mode & stat.S_IRWXO] == []
