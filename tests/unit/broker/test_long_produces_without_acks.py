"""A long produce request with acks=0 is appended as a whole, although its client closes the connection behind it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis.produce import sliced
from ottla.model.deferred import Deferred
from tests.support.lone_node import frame_of
from tests.unit.broker.test_growth import PARTITIONS, TOPIC, World
from tests.unit.broker.test_long_produces import LONG, VERSION, end_offsets, produce, send


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(sliced, "PARTITIONS_PER_TURN", 50)
    return World()


@pytest.mark.parametrize("share", [4, 2])
def test_records_without_acknowledgement_outlive_their_connection(world: World, share: int) -> None:
    whole = send(world, produce(LONG, acks=0))
    before = end_offsets(world)
    options: dict[str, Any] = {"gone_after_turns": whole.turns // share}
    send(world, produce(LONG, acks=0), **options)
    assert end_offsets(world) == [2 * offset for offset in before]


def test_a_node_that_closes_its_logs_appends_no_more(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """An append to a log that is flushed already would make the shutdown unclean."""
    node = world.node
    process, run = node._node.process, node._node._run
    assert process is not None
    assert run is not None
    assert run._lifecycle is not None
    connection = node._connections[False]
    frame = memoryview(bytearray(frame_of(0, VERSION, produce(LONG, acks=0))))
    process.run(lambda: node._dispatchers[False].dispatch(frame, connection, node), ())
    connection.is_gone = True
    log = node.broker.replicas.find(TOPIC, 0).log
    assert node._run(lambda: log.log_end_offset > 0)
    stopped: list[Deferred[None]] = []
    process.run(lambda: run._lifecycle.stop().when_done(stopped.append), ())  # type: ignore[union-attr]
    assert node._run(lambda: bool(stopped))
    assert stopped[0].error is None
    assert 0 < log.log_end_offset < LONG // (PARTITIONS + 1)
    assert "not shut down cleanly" not in caplog.text
