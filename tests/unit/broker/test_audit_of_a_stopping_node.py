"""A node that stops while a place refuses the audit writes the queued events to its files all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.broker.audit.files import AuditFiles
from ottla.broker.audit.trail import AuditTrail, Line
from ottla.host.files import OsFiles
from ottla.model.deferred import Deferred
from tests.support.virtual_world import VirtualWorld


class Topic:
    """A topic without a leader: it refuses each write, or does not answer."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers

    def prepare(self, lines: list[Line]) -> None: ...

    def write(self, lines: list[Line]) -> Deferred[None]:
        return Deferred.failed(OSError("no leader")) if self.answers else Deferred()

    def close(self) -> None: ...


@pytest.mark.parametrize("answers", [True, False])
def test_queued_events_are_in_the_files(tmp_path: Path, answers: bool) -> None:
    world = VirtualWorld(immediate_workers=True)
    trail = AuditTrail(world.world, 7, logs_logins=True, logs_accepted_logins=True)
    trail.places += [
        AuditFiles(OsFiles(), str(tmp_path), node_id=7, bytes_max=10_000, count=1),
        Topic(answers=answers),
    ]
    trail.note({"stream": "authorization", "number": 1})
    # The batch of the first event is written to the file, and waits for the topic.
    world.scheduler.advance(500)
    trail.note({"stream": "authorization", "number": 2})
    trail.close()
    lines = (tmp_path / "authorization-7.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2]
    world.scheduler.advance(60_000)
    assert len((tmp_path / "authorization-7.jsonl").read_text().splitlines()) == 2


class PreparingTopic(Topic):
    """A topic that writes what it has prepared last, as `AuditTopic` does."""

    def __init__(self) -> None:
        super().__init__(answers=False)
        self.prepared: list[Line] = []
        self.written: list[Line] = []

    def prepare(self, lines: list[Line]) -> None:
        self.prepared = lines

    def write(self, lines: list[Line]) -> Deferred[None]:
        self.written += self.prepared
        return super().write(lines)


def test_the_rest_does_not_replace_the_batch_that_a_worker_prepares() -> None:
    world, topic = VirtualWorld(), PreparingTopic()
    trail = AuditTrail(world.world, 7, logs_logins=True, logs_accepted_logins=True)
    trail.places.append(topic)
    trail.note({"stream": "authorization", "number": 1})
    world.scheduler.advance(500)
    world.workers.run_one()
    trail.note({"stream": "authorization", "number": 2})
    trail.close()
    world.workers.run_all()
    assert [json.loads(line.text)["number"] for line in topic.written] == [1]
    assert [json.loads(line.text)["number"] for line in topic.prepared] == [2]
