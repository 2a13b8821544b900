"""A Schema Registry that does not answer holds up neither flushes nor other small tasks of the node."""

from __future__ import annotations

import asyncio
import threading

from ottla.host.workers import ThreadWorkers
from ottla.model.deferred import Deferred
from ottla.model.ports import Lane, World
from ottla.records.schema_tags import SchemaRules, SchemaTags
from ottla.replica.schema_checks import SchemaChecks
from tests.support.virtual_world import VirtualWorld
from tests.unit.host.test_workers import wait

RULES = SchemaRules("", "io.confluent.kafka.serializers.subject.TopicNameStrategy")
THREADS = 2


def test_questions_to_the_registry_leave_the_threads_of_flushes_alone(loop: asyncio.AbstractEventLoop) -> None:
    virtual = VirtualWorld()
    workers = ThreadWorkers(loop, threads_max=THREADS)
    world = World(
        clock=virtual.clock, scheduler=virtual.scheduler, workers=workers, files=virtual.files, random=virtual.random
    )
    gate = threading.Event()

    def ask(_path: str) -> bytes:
        gate.wait()
        return b'["t-value"]'

    tags: SchemaTags = {(False, number): [number] for number in range(THREADS)}
    answer = SchemaChecks(world, ask).check("t", RULES, tags)
    assert isinstance(answer, Deferred)
    assert workers.outstanding == THREADS
    assert workers.lane(Lane.GENERAL).outstanding == 0, "a flush would wait for the registry"
    gate.set()
    answered: Deferred[object] = answer.then(lambda _: None)
    wait(loop, answered)
    workers.close()
