"""The audit trail: bounded, counted, repeated where a place fails, and rotated in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.audit import trail as trails
from ottla.broker.audit.files import AuditFiles
from ottla.broker.audit.trail import AuditTrail, Line
from ottla.host.files import OsFiles
from ottla.host.workers import TooManyTasks
from ottla.model.deferred import Deferred
from tests.support.virtual_world import VirtualWorld


class Refusing:
    """A place that fails a given number of times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.lines: list[Line] = []

    def prepare(self, lines: list[Line]) -> None:
        """Nothing is needed."""

    def write(self, lines: list[Line]) -> Deferred[None]:
        if self.failures:
            self.failures -= 1
            return Deferred.failed(OSError("not now"))
        self.lines += lines
        return Deferred.resolved(None)

    def close(self) -> None:
        """Nothing is open."""


def trail_of(world: VirtualWorld, *places: trails.Place) -> AuditTrail:
    trail = AuditTrail(world.world, 1, logs_logins=True, logs_accepted_logins=False)
    trail.places.extend(places)
    return trail


def event(number: int = 0) -> dict[str, object]:
    return {"stream": "authorization", "decision": "denied", "number": number}


def test_events_are_written_in_order_and_counted() -> None:
    world, place = VirtualWorld(immediate_workers=True), Refusing(0)
    trail = trail_of(world, place)
    for number in range(2_500):
        trail.note(event(number))
    assert place.lines == []
    world.scheduler.advance(1_000)
    assert [json.loads(line.text)["number"] for line in place.lines] == list(range(2_500))
    assert trail.written["authorization"] == 2_500
    assert world.scheduler.timers == 0


def test_a_place_that_fails_is_asked_again_and_the_other_is_not() -> None:
    world, good, bad = VirtualWorld(immediate_workers=True), Refusing(0), Refusing(2)
    trail = trail_of(world, good, bad)
    trail.note(event())
    world.scheduler.advance(10_000)
    assert len(good.lines) == len(bad.lines) == 1
    assert (trail.written["authorization"], trail.dropped["authorization"]) == (1, 0)


def test_a_place_that_fails_for_good_does_not_hold_up_the_trail(caplog: pytest.LogCaptureFixture) -> None:
    world, bad = VirtualWorld(immediate_workers=True), Refusing(trails.ATTEMPTS_MAX)
    trail = trail_of(world, bad)
    trail.note(event(1))
    world.scheduler.advance(10_000)
    trail.note(event(2))
    world.scheduler.advance(10_000)
    assert [json.loads(line.text)["number"] for line in bad.lines] == [2]
    assert (trail.written["authorization"], trail.dropped["authorization"]) == (1, 1)
    assert "1 audit events were dropped after 5 failed attempts" in caplog.text


def test_a_full_queue_drops_and_counts() -> None:
    world = VirtualWorld()
    trail = trail_of(world, Refusing(0))
    for number in range(trails.QUEUE_EVENTS_MAX + 7):
        trail.note(event(number))
    assert trail.dropped["authorization"] == 7


def test_logins_that_are_not_wanted_are_left_out() -> None:
    world, place = VirtualWorld(immediate_workers=True), Refusing(0)
    trail = trail_of(world, place)
    for reason in (None, "wrong"):
        trail.note_login(address="a", listener="L", mechanism="PLAIN", principal="User:x", reason=reason)
    world.scheduler.advance(1_000)
    assert [json.loads(line.text)["decision"] for line in place.lines] == ["refused"]


def test_files_are_rotated_and_the_oldest_go(tmp_path: Path) -> None:
    files = AuditFiles(OsFiles(), str(tmp_path / "audit"), node_id=7, bytes_max=100, count=3)
    for number in range(10):
        files.prepare([Line("authorization", 0, f"{number:060}".encode())])
    files.close()
    kept = {path.name: path.read_bytes() for path in (tmp_path / "audit").iterdir()}
    assert {name: int(text) for name, text in kept.items()} == {
        "authorization-7.jsonl": 9,
        "authorization-7.jsonl.1": 8,
        "authorization-7.jsonl.2": 7,
    }


@pytest.mark.parametrize("is_busy", [False, True])
def test_the_end_of_a_node_writes_what_is_queued(tmp_path: Path, is_busy: bool) -> None:
    world = VirtualWorld()
    trail = trail_of(world, AuditFiles(OsFiles(), str(tmp_path), node_id=7, bytes_max=10_000, count=1))
    trail.note(event(1))
    if is_busy:
        world.scheduler.advance(1_000)
    trail.note(event(2))
    trail.close()
    world.workers.run_all()
    lines = (tmp_path / "authorization-7.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2]
    trail.note(event(3))
    assert trail.dropped["authorization"] == 1


def test_a_batch_waits_for_room_at_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    world, place = VirtualWorld(immediate_workers=True), Refusing(0)
    trail = trail_of(world, place)
    submit, refusals = world.workers.submit, [TooManyTasks("no thread can be started")]

    def refuse_first(function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        return Deferred.failed(refusals.pop()) if refusals else submit(function, *arguments)

    monkeypatch.setattr(world.workers, "submit", refuse_first)
    trail.note(event(1))
    trail.note(event(2))
    world.scheduler.advance(20_000)
    assert [json.loads(line.text)["number"] for line in place.lines] == [1, 2]
    assert world.scheduler.timers == 0
