"""`ottla up`: a local cluster in the foreground.

A single node runs in this process. Several nodes are child processes (`ottla node --config`): see `supervisor`.
"""

from __future__ import annotations

import os
import random
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.context import ListenerInfo
from ottla.cli.logic.exposure import exposed_listeners
from ottla.cli.node import fail, keep_files_private, run_node
from ottla.host.files import OsFiles
from ottla.host.local_cluster import (
    HOST,
    address,
    controller_count,
    format_controllers,
    free_ports,
    node_directory,
    node_properties,
    write_properties,
)
from ottla.host.references import own_config
from ottla.host.secured_cluster import (
    FIRST_USER,
    MECHANISM,
    NODES,
    first_password,
    is_secured,
    make_files,
    write_client_files,
)
from ottla.model.config import BrokerConfig, ConfigError, complaint_about_key, parse_properties
from ottla.model.ports import DirectoryLocked

if TYPE_CHECKING:
    from ottla.cli.console_child import ConsoleChild
    from ottla.cli.registry_child import RegistryChild
    from ottla.wire.message import Message

__all__ = ["up"]

# Not indented, so that it can be pasted into Python.
NEXT_STEPS = """\
To try it, paste this into a Python that has confluent-kafka (in a checkout: .venv/bin/python):

from confluent_kafka import Consumer, Producer

producer = Producer({{"bootstrap.servers": "{bootstrap}"}})
producer.produce("hello", key="first", value="Hello, Ottla!")
producer.flush()

consumer = Consumer(
    {{"bootstrap.servers": "{bootstrap}", "group.id": "try", "auto.offset.reset": "earliest"}}
)
consumer.subscribe(["hello"])
print(consumer.poll(10).value())
consumer.close()

Data is kept in {data}. Ctrl-C stops the cluster."""

SECURE_STEPS = """\
Clients need the files below. They have the password of the user {user}, who may do everything:

Kafka's tools (Java), and ottla:

kafka-topics --bootstrap-server {bootstrap} --command-config {data}/client.properties --list
ottla topics list --command-config {data}/client.properties

librdkafka (kcat -F {data}/librdkafka.properties -L), and in Python:

from confluent_kafka import Producer

with open("{data}/librdkafka.properties") as file:
    settings = dict(line.rstrip().split("=", 1) for line in file)
producer = Producer(settings)
producer.produce("hello", value="Hello, Ottla!")
print(producer.flush(10), "records are missing")

Other users: ottla configs alter --user alice --set 'SCRAM-SHA-512=[password=...]', and their rights: ottla acls add.
What clients trust is {data}/ca.pem. Data is kept in {data}. Ctrl-C stops the cluster."""


METRICS_KEY = "ottla.metrics.listener"

# Addresses that stand for all addresses of the machine.
_WILDCARDS = ("0.0.0.0", "::")

WRONG_USAGE = 2


class _Plan(NamedTuple):
    """The arguments of one run."""

    nodes: int
    port: int
    data: str
    host: str
    # The advertised host.
    advertised: str
    settings: Mapping[str, str]
    is_insecure: bool
    is_secure: bool
    # The registry that runs beside the nodes.
    registry: RegistryChild | None
    # The console that runs beside the nodes.
    console: ConsoleChild | None

    @property
    def names(self) -> list[str]:
        """The names and addresses by which clients may reach the nodes, for their certificates."""
        hosts = ["localhost", HOST, socket.gethostname(), self.advertised]
        return list(dict.fromkeys(hosts if self.host in _WILDCARDS else [*hosts, self.host]))


def up(
    *,
    nodes: int,
    port: int,
    data: str,
    set: Mapping[str, str],
    host: str = HOST,
    advertise: str | None = None,
    insecure: bool = False,
    registry: int | None = None,
    console: int | None = None,
    secure: bool = False,
) -> int:
    """Runs until the cluster is stopped; returns the exit code. The parameters are the options of `ottla up`."""
    for key in set:
        if (complaint := complaint_about_key(key)) is not None:
            return fail(f"--set {key}: {complaint}", exit_code=WRONG_USAGE)
    if advertise is None:
        advertise = socket.gethostname() if host in _WILDCARDS else host
    if secure and insecure:
        return fail("--secure and --insecure exclude each other.", exit_code=WRONG_USAGE)
    registry_child, console_child = None, None
    if registry is not None:
        from ottla.cli.registry_child import RegistryChild, missing_libraries

        if missing := missing_libraries():
            return fail(f"The registry needs {', '.join(missing)}: run `pip install '.[registry]'` in a checkout.")
        registry_child = RegistryChild(registry)
    if console is not None:
        from ottla.cli import console_child as console_process

        if missing := console_process.missing_libraries():
            return fail(f"The console needs {', '.join(missing)}: run `pip install '.[console]'` in a checkout.")
        console_child = console_process.ConsoleChild(console)
    try:
        return _up(_Plan(nodes, port, data, host, advertise, set, insecure, secure, registry_child, console_child))
    finally:
        for child in (console_child, registry_child):
            if child is not None:
                child.stop()


def _up(plan: _Plan) -> int:
    nodes, data = plan.nodes, plan.data
    keep_files_private()
    try:
        os.makedirs(data, exist_ok=True)
        lock = OsFiles().lock(os.path.join(data, ".lock"))
    except DirectoryLocked:
        return fail(f"Another 'ottla up' is using the data directory {data}.")
    except OSError as error:
        return fail(f"Cannot use the data directory {data}: {error.strerror}.")
    try:
        controllers = _controllers_so_far(data)
        if 2 * nodes <= controllers:
            # Checked before anything is written: the properties of node 1 define the controllers of the whole cluster.
            return fail(
                f"The cluster in {data} has {controllers} controllers, and most of them have to run: "
                f"start it with --nodes {controllers}."
            )
        if (refusal := _check_secured(plan)) is not None:
            return fail(refusal)
        if plan.is_secure:
            make_files(data, nodes, names=plan.names)
        return _up_one(plan) if nodes == 1 else _up_many(plan, controllers_so_far=controllers)
    except ConfigError as error:
        return fail(error.message)
    except OSError as error:
        return fail(f"Cannot write to the data directory {data}: {error.strerror}.")
    finally:
        lock.release()


def _check_secured(plan: _Plan) -> str | None:
    """An error if the cluster was formatted with another security: its users and ACLs are in its metadata."""
    if is_secured(plan.data) and not plan.is_secure:
        return f"The cluster in {plan.data} is secured: add --secure, or use another directory with --data."
    if plan.is_secure and not is_secured(plan.data) and os.path.exists(node_directory(plan.data, 1)):
        return f"The cluster in {plan.data} was made without --secure: use another directory with --data."
    return None


def _credentials(plan: _Plan) -> list[Message]:
    """The credentials of the first user of a secured cluster."""
    if not plan.is_secure:
        return []
    from ottla.metadata.first_credentials import parse_credential

    password = first_password(plan.data)
    return [parse_credential(f"{MECHANISM}=[name={FIRST_USER},password={password}]", random.SystemRandom().randbytes)]


def _up_one(plan: _Plan) -> int:
    port, data, settings = plan.port, plan.data, plan.settings

    def properties(bound_port: int, node_port: int, controller_port: int) -> dict[str, str]:
        return node_properties(
            node_id=1,
            ports=[bound_port],
            controller_ports=[controller_port],
            node_ports=[node_port] if plan.is_secure else None,
            data=data,
            host=plan.host,
            advertised=plan.advertised,
            settings={METRICS_KEY: f"{HOST}:0", **settings},
        )

    def on_bound(listeners: list[ListenerInfo]) -> None:
        # Written with the ports that were bound, so that `ottla node --config` starts the same node again.
        controller_port = next((listener.port for listener in listeners if listener.is_controller), 0)
        node_port = next((listener.port for listener in listeners if listener.name == NODES), 0)
        write_properties(data, 1, properties(port or listeners[0].port, node_port, controller_port))

    def on_ready(addresses: list[str], metrics_url: str | None) -> None:
        urls = [metrics_url] if metrics_url else []
        _on_ready(plan, addresses[:1] if plan.is_secure else addresses, metrics_urls=urls)

    pid_file = os.path.join(node_directory(data, 1), "node.pid")
    first = properties(port, 0, 0)
    config = own_config(first)
    if (code := _check_exposure([config], plan)) is not None:
        return code
    format_controllers([first], credentials=_credentials(plan))
    return run_node(config, pid_file=pid_file, on_bound=on_bound, on_ready=on_ready)


def _up_many(plan: _Plan, *, controllers_so_far: int) -> int:
    from ottla.cli.supervisor import Supervisor

    nodes, port, data, settings = plan.nodes, plan.port, plan.data, plan.settings
    if port and port + nodes - 1 > 65535:
        return fail(f"There are no {nodes} ports from {port} on.")
    broker_ports = list(range(port, port + nodes)) if port else free_ports(nodes)
    controllers = controllers_so_far or controller_count(nodes)
    # Only the nodes use the controllers' ports, so any free port that is not a broker's will do.
    free = [free_port for free_port in free_ports(3 * nodes + controllers) if free_port not in broker_ports]
    metrics_ports = free[controllers : controllers + nodes]
    node_ports = free[controllers + nodes : controllers + 2 * nodes]
    all_properties = [
        node_properties(
            node_id=node_id,
            ports=broker_ports,
            controller_ports=free[:controllers],
            node_ports=node_ports if plan.is_secure else None,
            data=data,
            host=plan.host,
            advertised=plan.advertised,
            settings={METRICS_KEY: f"{HOST}:{metrics_ports[node_id - 1]}", **settings},
        )
        for node_id in range(1, nodes + 1)
    ]
    if (code := _check_exposure([own_config(properties) for properties in all_properties], plan)) is not None:
        return code
    format_controllers(all_properties, credentials=_credentials(plan))
    config_files = [
        write_properties(data, number, properties) for number, properties in enumerate(all_properties, start=1)
    ]
    addresses = [address(plan.advertised, broker_port) for broker_port in broker_ports]
    urls = [] if METRICS_KEY in settings else [f"http://{HOST}:{port}/metrics" for port in metrics_ports]
    return Supervisor(config_files, on_ready=lambda: _on_ready(plan, addresses, metrics_urls=urls)).run()


def _check_exposure(configs: list[BrokerConfig], plan: _Plan) -> int | None:
    """Refuses a listener without authentication that other machines can reach, or warns with --insecure."""
    exposed = exposed_listeners(configs)
    if not exposed:
        return None
    addresses = ", ".join(map(str, exposed))
    danger = (
        f"{addresses}: everyone who reaches this address can read, change and delete everything, without a password."
    )
    from ottla.cli.output import say_wrong

    if not plan.is_insecure:
        return fail(f"{danger} Add --insecure to accept that.", exit_code=WRONG_USAGE)
    say_wrong(f"Warning: {danger}")
    return None


def _controllers_so_far(data: str) -> int:
    """The number of controllers of the cluster in this directory, which never changes; 0 for a new cluster."""
    path = os.path.join(node_directory(data, 1), "node.properties")
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as file:
        voters = parse_properties(file.read()).get("controller.quorum.voters", "")
    return len([voter for voter in voters.split(",") if voter.strip()])


def _on_ready(plan: _Plan, addresses: list[str], *, metrics_urls: list[str]) -> None:
    """Prints the ready line, and starts the Schema Registry and the console if they are enabled."""
    say_ready(plan, addresses, metrics_urls=metrics_urls)
    command_config = os.path.join(plan.data, "client.properties") if plan.is_secure else None
    if plan.registry is not None:
        plan.registry.start(",".join(addresses), command_config=command_config)
    if plan.console is not None:
        plan.console.start(
            ",".join(addresses),
            command_config=command_config,
            registry_url=plan.registry.url if plan.registry is not None else None,
            metrics_urls=metrics_urls,
        )


def say_ready(plan: _Plan, addresses: list[str], *, metrics_urls: list[str]) -> None:
    """Prints the ready line that scripts wait for, and an example for people."""
    bootstrap, data = ",".join(addresses), os.path.abspath(plan.data)
    if plan.is_secure:
        write_client_files(plan.data, bootstrap)
    print("ready", bootstrap)
    if metrics_urls:
        print("metrics", *metrics_urls)
    if plan.is_secure:
        print()
        print(SECURE_STEPS.format(bootstrap=bootstrap, data=data, user=FIRST_USER))
    elif not plan.settings:
        print()
        print(NEXT_STEPS.format(bootstrap=bootstrap, data=data))
    sys.stdout.flush()
