"""A query that reaches a worker before it has opened its global tables."""

from __future__ import annotations

from pathlib import Path

from ottla.streams import Serdes, Stores, Topology
from ottla.streams.machine.processor import Processor
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.query_door import QueryDoor
from ottla.streams.runtime.worker import Worker
from tests.support.streams_workers import config_of, plan_of

TEXT = Serdes.string()


def test_the_answer_is_that_the_store_is_not_available_yet(tmp_path: Path) -> None:
    topology = Topology()
    topology.add_global_store(Stores.key_value("s", TEXT, TEXT), "source", "in", "p", Processor)
    identity = WorkerIdentity(application_id="app", process_id="process", number=0)
    worker = Worker(topology, config_of(tmp_path), plan_of([]), identity, LocalStates(None, {}))
    door = QueryDoor(worker, "127.0.0.1", "token")
    for is_stale_allowed in (False, True):
        request = {"store": "s", "partition": 0, "operation": "all", "arguments": {}, "stale": is_stale_allowed}
        assert door._answer(request) == {"error": "unavailable", "message": "its worker is starting; ask again"}
