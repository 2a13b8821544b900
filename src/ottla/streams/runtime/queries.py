"""Interactive queries of an application: finds the workers and instances that have a store, asks them, decodes rows.

A query goes to the worker that runs the task of a key, in this instance or in another one, over `application.server`.
With `stale` a standby copy may answer if no active task does (KIP-535). Every answer has its position (KIP-796).
"""

from __future__ import annotations

import base64
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.fast import partition_of_key
from ottla.streams.errors import StoreNotFoundError, StreamsError
from ottla.streams.machine.settings import TaskSettings
from ottla.streams.runtime.plan import TaskPlan
from ottla.streams.runtime.query_access import QueryAccess
from ottla.streams.runtime.query_door import encode_arguments
from ottla.streams.serdes import Serde
from ottla.streams.state.reading import StoredRow
from ottla.streams.topology.topology import Topology

__all__ = ["Answer", "KeyQueryMetadata", "NotUpToBoundError", "Queries", "StoreUnavailableError", "StreamsMetadata"]

_TIMEOUT_S = 10.0
# Workers have whole copies of global stores.
GLOBAL = -1


class StoreUnavailableError(StreamsError):
    """No worker has the store now: it is being restored, or its task is moving. Ask again."""


class NotUpToBoundError(StreamsError):
    """The store has not processed the input up to the bound of the query. Ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of one partition, and how current they are."""

    rows: list[StoredRow]
    has_more: bool
    # False: a standby copy answered.
    is_active: bool
    # Records of the changelog that a standby copy does not have yet.
    lag: int
    # Topic -> partition -> offset up to which the store has the input.
    position: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyQueryMetadata:
    """The instances that have a key. Hosts are `application.server` of instances; empty if an instance has none."""

    active_host: str
    standby_hosts: tuple[str, ...]
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMetadata:
    """The stores of an instance: (store, partition)."""

    host: str
    active: tuple[tuple[str, int], ...]
    standby: tuple[tuple[str, int], ...]


class Queries:
    """`reports` gives the last reports of the workers of this instance."""

    def __init__(
        self,
        topology: Topology,
        plan: TaskPlan,
        settings: TaskSettings,
        token: str,
        reports: Callable[[], Mapping[int, Mapping[str, Any]]],
        host: str,
        access: QueryAccess | None = None,
    ) -> None:
        self._access = access or QueryAccess()
        self._context = self._access.client_context()
        self._topology = topology
        self._settings = settings
        self._token = token
        self._reports = reports
        self._host = host
        # Store -> partition -> task id.
        self._tasks: dict[str, dict[int, str]] = {}
        for task in plan.tasks:
            for store in _stores_of(topology, task.names):
                self._tasks.setdefault(store, {})[task.partition] = task.task_id

    @property
    def stores(self) -> list[str]:
        return sorted([*self._tasks, *self._topology.global_stores])

    def check(self, store: str) -> None:
        if store not in self._tasks and store not in self._topology.global_stores:
            known = ", ".join(self.stores) or "none"
            raise StoreNotFoundError(f"The application has no store {store}; it has {known}.")

    def partitions(self, store: str) -> list[int]:
        self.check(store)
        return [GLOBAL] if store in self._topology.global_stores else sorted(self._tasks[store])

    def partition_of(self, store: str, key: bytes) -> int:
        partitions = self.partitions(store)
        return GLOBAL if partitions == [GLOBAL] else partition_of_key(key, len(partitions))

    def serdes(self, store: str) -> tuple[Serde, Serde, str]:
        """The serdes of keys and values, and the topic for their calls."""
        self.check(store)
        specification = self._topology.stores.get(store) or self._topology.global_stores[store]
        topic = self._topology.store_source_topics.get(store) or self._settings.changelog(store)
        return (
            self._settings.resolve_key(specification.key_serde),
            self._settings.resolve_value(specification.value_serde),
            topic,
        )

    def hosts(self, store: str, partition: int) -> list[str]:
        """The instances that have a partition of a store, the active instance first."""
        task_id = self._tasks[store][partition]
        for report in self._reports().values():
            if task_id in report.get("hosts", {}):
                return list(report["hosts"][task_id])
        return []

    def metadata_of(self, store: str, key: bytes) -> KeyQueryMetadata:
        partition = self.partition_of(store, key)
        if partition == GLOBAL:
            return KeyQueryMetadata(active_host=self._host, standby_hosts=(), partition=GLOBAL)
        hosts = self.hosts(store, partition) or [""]
        return KeyQueryMetadata(active_host=hosts[0], standby_hosts=tuple(hosts[1:]), partition=partition)

    def all_metadata(self) -> list[StreamsMetadata]:
        active: dict[str, list[tuple[str, int]]] = {}
        standby: dict[str, list[tuple[str, int]]] = {}
        for store, tasks in sorted(self._tasks.items()):
            for partition in sorted(tasks):
                for index, host in enumerate(self.hosts(store, partition)):
                    (active if index == 0 else standby).setdefault(host, []).append((store, partition))
        return [
            StreamsMetadata(host=host, active=tuple(active.get(host, ())), standby=tuple(standby.get(host, ())))
            for host in sorted(active.keys() | standby.keys())
        ]

    def ask(self, request: dict[str, Any], *, forwards: bool = True) -> dict[str, Any]:
        """The answer of a worker that has the partition. Raises StoreUnavailableError, NotUpToBoundError."""
        store, partition = request["store"], request["partition"]
        known = self.partitions(store)
        if partition not in known:
            numbers = "no partitions" if known == [GLOBAL] else f"partitions {known[0]} to {known[-1]}"
            raise StreamsError(f"Store {store} has {numbers}; partition {partition} was asked for.")
        reasons = []
        for address in self._addresses(store, partition, stale=bool(request.get("stale"))):
            answer = self._ask_worker(address, request)
            if "error" not in answer:
                return answer
            if answer["error"] != "unavailable":
                _raise(answer)
            reasons.append(answer["message"])
        if forwards and partition != GLOBAL:
            hosts = [host for host in self.hosts(store, partition) if host and host != self._host]
            for host in hosts if request.get("stale") else hosts[:1]:
                answer = self._ask_instance(host, request)
                if "error" not in answer:
                    return answer
                if answer["error"] != "unavailable":
                    _raise(answer)
                reasons.append(answer["message"])
        raise StoreUnavailableError(
            f"Store {store}, partition {partition}, is not available: "
            + (reasons[-1] if reasons else "no worker has it now; the application is starting or rebalancing.")
        )

    def query(
        self,
        store: str,
        partition: int,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        stale: bool = False,
        bound: Mapping[str, Mapping[int, int]] | None = None,
    ) -> Answer:
        answer = self.ask(
            {
                "store": store,
                "partition": partition,
                "operation": operation,
                "arguments": encode_arguments(arguments),
                "stale": stale,
                "bound": bound,
            }
        )
        return Answer(
            rows=[_row(*row) for row in answer["rows"]],
            has_more=answer["more"],
            is_active=answer["active"],
            lag=answer["lag"],
            position=answer["position"],
        )

    def _addresses(self, store: str, partition: int, *, stale: bool) -> Iterator[str]:
        """Workers of this instance that have a partition: active workers first."""
        reports = list(self._reports().values())
        if partition == GLOBAL:
            yield from (report["queries"] for report in reports if report.get("queries"))
            return
        task_id = self._tasks[store].get(partition)
        for name in ("tasks", "standbys") if stale else ("tasks",):
            for report in reports:
                if task_id in report.get(name, ()) and report.get("queries"):
                    yield report["queries"]

    def _ask_worker(self, address: str, request: dict[str, Any]) -> dict[str, Any]:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
                connection.sendall(json.dumps({**request, "token": self._token}).encode() + b"\n")
                with connection.makefile("rb") as lines:
                    answer: dict[str, Any] = json.loads(lines.readline() or b"{}")
        except (OSError, ValueError) as error:
            return {"error": "unavailable", "message": f"the worker at {address} does not answer ({error})"}
        return answer or {"error": "unavailable", "message": f"the worker at {address} has ended"}

    def _ask_instance(self, host: str, request: dict[str, Any]) -> dict[str, Any]:
        content = json.dumps(request).encode()
        headers = {"content-type": "application/json", **self._access.headers}
        http = urllib.request.Request(f"{self._access.scheme}://{host}/query", content, headers)
        try:
            with urllib.request.urlopen(http, timeout=_TIMEOUT_S, context=self._context) as response:
                answer: dict[str, Any] = json.loads(response.read())
                return answer
        except urllib.error.HTTPError as error:
            try:
                answer = json.loads(error.read())
            except ValueError:
                answer = {"error": "unavailable", "message": f"instance {host} answers {error.code}"}
            return answer
        except (OSError, ValueError) as error:
            return {"error": "unavailable", "message": f"instance {host} does not answer ({error})"}


def _row(key: str, value: str, timestamp: int | None, window: list[int] | None) -> StoredRow:
    times = None if window is None else (window[0], window[1])
    return StoredRow(base64.b64decode(key), base64.b64decode(value), timestamp, times)


def _raise(answer: dict[str, Any]) -> None:
    raise (NotUpToBoundError if answer["error"] == "not up to bound" else StreamsError)(answer["message"])


def _stores_of(topology: Topology, names: tuple[str, ...]) -> set[str]:
    stores: set[str] = set()
    for name in names:
        stores.update(getattr(topology.nodes[name], "stores", ()))
    return stores & topology.stores.keys()
