"""Registries are killed and frozen, and brokers killed, while clients register schemas.

No id is assigned twice, and no acknowledged schema is lost.
"""

from __future__ import annotations

import random
import signal
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import ottla.testing
from tests.support.registries import RegistryProcess
from tests.support.secured import Certificates

pytestmark = pytest.mark.faults

INSTANCES, CLIENTS = 3, 4
FROZEN_SECONDS = 13.0


class Registrations:
    """The answers that clients got: ids to schemas, and schemas that must exist."""

    def __init__(self) -> None:
        self.by_id: dict[int, str] = {}
        self.lock = threading.Lock()
        self.failures: list[str] = []

    def add(self, schema_id: int, schema: str) -> None:
        with self.lock:
            former = self.by_id.setdefault(schema_id, schema)
            if former != schema:
                self.failures.append(f"id {schema_id} was given for {former} and for {schema}")


def register_for_long(
    number: int, ports: list[int], done: threading.Event, registrations: Registrations, tls: ssl.SSLContext | None
) -> None:
    choice, count = random.Random(number), 0
    while not done.is_set():
        count += 1
        schema = f'{{"type":"fixed","name":"f{number}_{count}","size":1}}'
        while not done.is_set():
            registry = RegistryProcess.__new__(RegistryProcess)
            registry.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{choice.choice(ports)}"
            registry.tls = tls
            try:
                status, body = registry.ask("POST", f"/subjects/s{number}-{count}/versions", {"schema": schema})
            except OSError:
                time.sleep(0.05)
                continue
            if status == 200:
                registrations.add(body["id"], schema)
                break
            assert status >= 500, body


@pytest.mark.parametrize("is_secure", [False, True], ids=["http", "https"])
def test_kills_of_writers_and_brokers(is_secure: bool, tmp_path: Path, faults_seconds: float, faults_seed: int) -> None:
    """With TLS, clients have certificates and rights for their subjects, and instances forward in their names."""
    options, tls = secured(tmp_path) if is_secure else ((), None)
    chance, registrations, done = random.Random(faults_seed), Registrations(), threading.Event()
    with ottla.testing.cluster(nodes=3) as cluster:
        registries = [RegistryProcess(cluster.bootstrap, *options) for _ in range(INSTANCES)]
        ports = [registry.port for registry in registries]
        threads = [
            threading.Thread(target=register_for_long, args=(number, ports, done, registrations, tls))
            for number in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        kills, end = 0, time.monotonic() + faults_seconds
        try:
            while time.monotonic() < end:
                time.sleep(chance.uniform(1, 3))
                index = chance.randrange(INSTANCES)
                node = chance.choice(cluster.nodes)
                if kills % 4 == 2:
                    node.kill()
                    node.start()
                elif kills % 4 == 3:
                    node.kill()
                    registries[index].kill()
                    node.start()
                    registries[index] = RegistryProcess(cluster.bootstrap, "--port", str(ports[index]), *options)
                elif kills % 4 == 1:
                    # Longer than a session: another instance writes when this one wakes up.
                    registries[index].process.send_signal(signal.SIGSTOP)
                    time.sleep(FROZEN_SECONDS)
                    registries[index].process.send_signal(signal.SIGCONT)
                else:
                    registries[index].kill()
                    registries[index] = RegistryProcess(cluster.bootstrap, "--port", str(ports[index]), *options)
                kills += 1
        finally:
            done.set()
            for thread in threads:
                thread.join()
        print(f"{len(registrations.by_id)} schemas registered, {kills} kills")
        assert registrations.failures == []
        assert len(registrations.by_id) > kills
        fresh = RegistryProcess(cluster.bootstrap, *options)
        fresh.tls = tls
        try:
            for schema_id, schema in registrations.by_id.items():
                assert fresh.get(f"/schemas/ids/{schema_id}")["schema"] == schema
        finally:
            for registry in (*registries, fresh):
                registry.kill()


def secured(directory: Path) -> tuple[tuple[str, ...], ssl.SSLContext]:
    """The options of instances, and the TLS context of clients."""
    files = Certificates(directory)
    (directory / "acls").write_text("ALLOW User:alice SUBJECT_READ,SUBJECT_WRITE s*\n")
    tls = ssl.create_default_context(cafile=str(files.trusted))
    tls.load_cert_chain(files.client_certificate, files.client_key)
    node = files.node
    options = (
        *("--tls-certificate", str(node.with_suffix(".crt")), "--tls-key", str(node.with_suffix(".key"))),
        *("--tls-authorities", str(files.trusted), "--tls-clients", "--acls", str(directory / "acls")),
        *("--tls-principal-rules", "RULE:^CN=([^,]*).*$/$1/,DEFAULT"),
    )
    return options, tls


def test_a_writer_that_wakes_up_cannot_give_an_id_twice() -> None:
    """Requests wait in the socket of the frozen writer, which decides them before it learns of its replacement."""
    with ottla.testing.cluster() as cluster:
        first, second = RegistryProcess(cluster.bootstrap), RegistryProcess(cluster.bootstrap)
        try:
            assert first.register("before", '"int"') == 1
            first.process.send_signal(signal.SIGSTOP)
            answers: dict[str, tuple[int, Any]] = {}
            waiting = [threading.Thread(target=register_once, args=(first, number, answers)) for number in range(3)]
            for thread in waiting:
                thread.start()
            registrations = Registrations()
            for number in range(20):
                schema = f'{{"type":"fixed","name":"second{number}","size":1}}'
                while (answer := second.ask("POST", f"/subjects/second{number}/versions", {"schema": schema}))[
                    0
                ] != 200:
                    assert answer[0] >= 500
                    time.sleep(0.2)
                registrations.add(answer[1]["id"], schema)
            first.process.send_signal(signal.SIGCONT)
            for thread in waiting:
                thread.join()
            for schema, (status, body) in answers.items():
                assert status in (200, 500), body
                if status == 200:
                    registrations.add(body["id"], schema)
            assert registrations.failures == []
            for schema_id, schema in registrations.by_id.items():
                assert second.get(f"/schemas/ids/{schema_id}")["schema"] == schema
        finally:
            first.kill()
            second.kill()


def register_once(registry: RegistryProcess, number: int, answers: dict[str, tuple[int, Any]]) -> None:
    schema = f'{{"type":"fixed","name":"first{number}","size":1}}'
    answers[schema] = registry.ask("POST", f"/subjects/first{number}/versions", {"schema": schema})
