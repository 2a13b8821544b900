"""A fresh cluster for every test: the program behind `-Doutside.launcher`.

    start DIR N PROPERTIES   brokers 0..N-1 with that file (and PROPERTIES.ID where one broker has its own), all under
                             DIR; waits until they serve and prints the bootstrap list
    stop DIR                 ends them and removes DIR
    stop-broker DIR ID       ends one in good order
    start-broker DIR ID      starts it again; both wait

The only broker of a cluster is also its controller; several have one beside them, node 3000 as in Kafka's framework,
so that every broker may be stopped. Its address is left in DIR/controller; DIR/disks may say how many directories each
broker has, DIR/release the release whose features the cluster begins with, DIR/listeners the names and protocols of
the brokers' listeners, whose ports then are in DIR/ID.ports, and DIR/scram the credentials that exist from the start.
DIR/ID.metrics is the address of a node's metrics page, if it has one. Only the command line that runs a node,
and whether its storage must be formatted first, differ between Ottla and Apache Kafka; `ottla-launcher` and
`kafka-launcher` are the two doors.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.kafka.passwords import PlainUsers
from tests.support import jars
from tests.support.brokers import CLUSTER_ID, free_ports
from tests.support.java import java_command

__all__ = ["main"]

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
KINDS = ("ottla", "kafka")
CONTROLLER_ID = 3000
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# Plug-ins of Kafka's tests, and what does the same in Python.
PLUG_INS = {
    "kafka.api.AbstractAuthorizerIntegrationTest$PrincipalBuilder": "tests.kafka.principals.by_listener",
    "kafka.api.GroupEndToEndAuthorizationTest$GroupPrincipalBuilder": "tests.kafka.principals.groups",
    "kafka.api.PlaintextEndToEndAuthorizationTest$TestClientPrincipalBuilder": "tests.kafka.principals.client",
    "kafka.api.PlaintextEndToEndAuthorizationTest$TestServerPrincipalBuilder": "tests.kafka.principals.server",
    "kafka.api.SaslPlainSslEndToEndAuthorizationTest$TestPrincipalBuilder": "tests.kafka.principals.plain_users",
    "kafka.api.SaslPlainSslEndToEndAuthorizationTest$TestServerCallbackHandler": "tests.kafka.passwords.PlainUsers",
    "kafka.api.SslAdminIntegrationTest$TestPrincipalBuilder": "tests.kafka.principals.admin_by_certificate",
    "kafka.api.SslAdminIntegrationTest$TestableStandardAuthorizer": STANDARD_AUTHORIZER,
    "kafka.api.SslEndToEndAuthorizationTest$TestPrincipalBuilder": "tests.kafka.principals.by_certificate",
    "kafka.server.AlterCredentialsTest$TestPrincipalBuilderReturningAuthorized": "tests.kafka.principals.anonymous",
    "kafka.server.AlterCredentialsTest$TestPrincipalBuilderReturningUnauthorized": (
        "tests.kafka.principals.unauthorized"
    ),
    "kafka.server.AlterCredentialsTest$TestStandardAuthorizer": "tests.kafka.authorizers.DenyAlterScram",
    "kafka.server.DescribeCredentialsTest$TestPrincipalBuilderReturningAuthorized": "tests.kafka.principals.anonymous",
    "kafka.server.DescribeCredentialsTest$TestPrincipalBuilderReturningUnauthorized": (
        "tests.kafka.principals.unauthorized"
    ),
    "org.apache.kafka.clients.security.GroupAuthorizerIntegrationTest$GroupPrincipalBuilder": (
        "tests.kafka.principals.group_by_listener"
    ),
}

# Size, API key, version, correlation id, no client id.
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def main(kind: str, arguments: list[str]) -> None:
    assert kind in KINDS, kind
    verb, directory = arguments[0], Path(arguments[1])
    if verb == "start":
        print(start(kind, directory, broker_count=int(arguments[2]), properties=Path(arguments[3])))
    elif verb == "stop":
        stop(directory)
    elif verb == "stop-broker":
        end(directory, int(arguments[2]), signal.SIGTERM)
    elif verb == "start-broker":
        spawn(kind, directory, int(arguments[2]))
        wait_until_served(directory, int(arguments[2]))
    else:
        sys.exit(f"unknown verb {verb}")


def start(kind: str, directory: Path, *, broker_count: int, properties: Path) -> str:
    protocols = listeners_of(directory)
    *free, controller_port = free_ports(broker_count * (len(protocols) + 1) + 1)
    metrics_ports = [free.pop() for _ in range(broker_count)]
    nodes = {node: dict(zip(protocols, free[node * len(protocols) :], strict=False)) for node in range(broker_count)}
    ports = [next(iter(listeners.values())) for listeners in nodes.values()]
    if broker_count > 1:
        nodes[CONTROLLER_ID] = {"CONTROLLER": controller_port}
    (directory / "controller").write_text(f"127.0.0.1:{controller_port}")
    only = 0 if broker_count == 1 else None
    for node, listeners in nodes.items():
        text = node_properties(kind, directory, node, listeners, controller_port, broker_count, properties)
        if kind == "ottla" and node != CONTROLLER_ID and (directory / "listeners").exists():
            address = f"127.0.0.1:{metrics_ports[node]}"
            text += f"ottla.metrics.listener={address}\n"
            (directory / f"{node}.metrics").write_text(f"http://{address}/metrics")
        (directory / f"{node}.properties").write_text(text)
        (directory / f"{node}.port").write_text(str(next(iter(listeners.values()))))
        (directory / f"{node}.ports").write_text("".join(f"{name} {port}\n" for name, port in listeners.items()))
        if kind == "kafka":
            format_storage(directory, node, is_controller=node in (CONTROLLER_ID, only))
        elif format_options := options_of_format(directory, is_controller=node in (CONTROLLER_ID, only)):
            command = [str(Path(sys.executable).parent / "ottla"), "storage", "format", "-t", CLUSTER_ID]
            command += ["-c", str(directory / f"{node}.properties"), *format_options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for node in nodes:
        spawn(kind, directory, node)
    for node in nodes:
        wait_until_served(directory, node)
    return ",".join(f"127.0.0.1:{port}" for port in ports)


def stop(directory: Path) -> None:
    for file in directory.glob("*.pid"):
        end(directory, int(file.stem), signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


def node_properties(
    kind: str,
    directory: Path,
    node: int,
    ports: Mapping[str, int],
    controller_port: int,
    broker_count: int,
    properties: Path,
) -> str:
    """The test's own settings, before them defaults that make a small cluster quick, after them what must be so."""
    factor = min(broker_count, 3)
    defaults: dict[str, object] = {
        "offsets.topic.replication.factor": factor,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.num.partitions": 5,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 2097154,
    }
    # As Kafka's own test framework does. Its controllers tell of levels under development by the first, ours by the
    # second.
    defaults["unstable.api.versions.enable" if kind == "kafka" else "unstable.feature.versions.enable"] = "true"
    protocols = listeners_of(directory)
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    roles, voter = "controller" if node == CONTROLLER_ID else "broker", CONTROLLER_ID
    if broker_count == 1:
        roles, listeners, voter = "broker,controller", f"{listeners},CONTROLLER://127.0.0.1:{controller_port}", 0
    fixed = {
        "process.roles": roles,
        "node.id": node,
        "controller.quorum.voters": f"{voter}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in {"CONTROLLER": "PLAINTEXT", **protocols}.items()
        ),
        "log.dirs": ",".join(str(directory / f"data{node}{suffix}") for suffix in disk_suffixes(directory, node)),
    }
    if roles != "controller":
        if (directory / "listeners").exists():
            # The name in the certificates and tickets of the tests.
            fixed["advertised.listeners"] = ",".join(f"{name}://localhost:{port}" for name, port in ports.items())
        else:
            fixed["inter.broker.listener.name"] = "PLAINTEXT"
    own = [properties, Path(f"{properties}.{node}")]
    if broker_count == 1:
        own.append(Path(f"{properties}.{CONTROLLER_ID}"))
    parts = [as_lines(defaults), *(file.read_text() for file in own if file.exists()), as_lines(fixed)]
    lines = "\n".join(parts).splitlines(keepends=True)
    # Ottla refuses to enable what it has not got, and of API versions under development it has none.
    lines = [line for line in lines if kind == "kafka" or not line.startswith("unstable.api.")]
    return "".join(lines if kind == "kafka" else map(with_own_plug_in, lines))


def listeners_of(directory: Path) -> dict[str, str]:
    """The protocols of a broker's listeners by their names."""
    file = directory / "listeners"
    if not file.exists():
        return {"PLAINTEXT": "PLAINTEXT"}
    named = dict(line.split() for line in file.read_text().splitlines())
    return {name: protocol for name, protocol in named.items() if name != "CONTROLLER"}


def with_own_plug_in(line: str) -> str:
    """A Java class cannot run inside our node: its part is played by one of Python."""
    key, _, name = line.strip().partition("=")
    if key == "sasl.client.callback.handler.class":
        return ""
    if 'username="plain-admin"' in line and 'password=""' in line:
        # The class would give it.
        return line.replace('password=""', f'password="{PlainUsers.PASSWORDS["plain-admin"]}"')
    is_plug_in = key.endswith(("principal.builder.class", "authorizer.class.name", "server.callback.handler.class"))
    return f"{key}={PLUG_INS.get(name, name)}\n" if is_plug_in else line


def disk_suffixes(directory: Path, node: int) -> list[str]:
    """DIR/disks holds the number of directories that a test wants for each broker."""
    file = directory / "disks"
    count = int(file.read_text()) if file.exists() and node != CONTROLLER_ID else 1
    return ["", *(f"-{number}" for number in range(1, count))]


def release_of(directory: Path) -> str | None:
    """DIR/release holds the release that a test wants to begin with, where it is not the newest."""
    file = directory / "release"
    return file.read_text() if file.exists() else None


def options_of_format(directory: Path, *, is_controller: bool) -> list[str]:
    release, scram = release_of(directory), directory / "scram"
    options = [] if release is None else ["-r", release]
    for line in scram.read_text().splitlines() if is_controller and scram.exists() else []:
        options += ["--add-scram", line]
    return options


def as_lines(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def spawn(kind: str, directory: Path, broker: int) -> None:
    properties = str(directory / f"{broker}.properties")
    if kind == "ottla":
        command = [str(Path(sys.executable).parent / "ottla"), "node", "--config", properties]
    else:
        # The plug-ins of a test are in the test jars.
        jar_set = jars.COMPAT if (directory / "listeners").exists() else jars.TOOLS
        kerberos = os.environ.get("KRB5_CONFIG")
        options = ["-Xmx400m", "-Xshare:auto", *([f"-Djava.security.krb5.conf={kerberos}"] if kerberos else [])]
        command = [*java(*options, jar_set=jar_set), "kafka.Kafka", properties]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with (directory / f"{broker}.log").open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=environment
        )
    (directory / f"{broker}.pid").write_text(str(process.pid))


def java(*options: str, jar_set: Path = jars.TOOLS) -> list[str]:
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [java_command(), *options, *quick, "-cp", jars.class_path(jar_set)]


def format_storage(directory: Path, node: int, *, is_controller: bool) -> None:
    """Formatting costs a JVM, so a formatted directory is kept in the cache and copied."""
    release = release_of(directory)
    options = options_of_format(directory, is_controller=is_controller)
    digest = hashlib.sha256("".join(options[2:] if release else options).encode()).hexdigest()[:8]
    for suffix in disk_suffixes(directory, node):
        name = f"{jars.fetch(jars.TOOLS).name}-{node}{'-controller' if is_controller else ''}{release or ''}"
        name += f"-{digest}" if "--add-scram" in options else ""
        kept = jars.cache_directory() / "formatted" / f"{name}{suffix}"
        place = directory / f"data{node}{suffix}"
        if not kept.is_dir():
            settings = {"log.dirs": place, "node.id": node}
            properties = directory / f"{node}.format"
            # The plug-ins of a test are not on the class path of the tool.
            lines = (directory / f"{node}.properties").read_text().splitlines(keepends=True)
            own = "".join(
                line for line in lines if "principal.builder.class=" not in line and "ssl.keystore" not in line
            )
            properties.write_text(own + as_lines(settings))
            command = [*java("-Xmx128m"), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
            command += options
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            shutil.copytree(place, kept)
        shutil.copytree(kept, place, dirs_exist_ok=True)


def wait_until_served(directory: Path, broker: int) -> None:
    port = int((directory / f"{broker}.port").read_text())
    pid = int((directory / f"{broker}.pid").read_text())
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as client:
            if uses_tls(directory, broker):
                # Its test waits until every broker has joined, as a client that can log in.
                return
            # A broker may let connections wait before it is ready; one that answers is a member of the cluster.
            client.settimeout(max(deadline - time.monotonic(), 0.001))
            client.sendall(API_VERSIONS_REQUEST)
            if client.recv(4):
                return
        if not is_alive(pid):
            break
        time.sleep(0.005)
    sys.exit(f"broker {broker} did not start: {(directory / f'{broker}.log').read_text()[-2000:]}")


def uses_tls(directory: Path, broker: int) -> bool:
    return broker != CONTROLLER_ID and next(iter(listeners_of(directory).values())).endswith("SSL")


def end(directory: Path, broker: int, first_signal: signal.Signals) -> None:
    pid = int((directory / f"{broker}.pid").read_text())
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, first_signal)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while is_alive(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """A broker whose launcher has ended is no child of this process. A zombie counts as ended."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"
