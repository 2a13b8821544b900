"""Refused requests leave no reference cycles, because collecting them would stop the loop."""

from __future__ import annotations

import gc
from collections import Counter

from ottla.model.errors import KafkaError
from ottla.wire.api import API_SPECS, ApiKey
from tests.support.lone_node import frame_of
from tests.unit.broker.test_growth import World, cases, filled

ELEMENTS = 20


def test_errors_leave_no_garbage() -> None:
    world = World()
    frames = [
        (
            case,
            frame_of(
                case.api_key,
                case.version,
                filled(API_SPECS[ApiKey(case.api_key)].request_class, case, ELEMENTS, world.known, kind=kind),
            ),
        )
        for case in cases()
        for kind in ("different", "refused")
    ]
    # The first requests compile codecs, which leaves garbage.
    for case, frame in frames:
        world.node.send(frame, at_controller=case.at_controller)
    gc.collect()
    gc.freeze()
    left: Counter[str] = Counter()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        for case, frame in frames:
            world.node.send(frame, at_controller=case.at_controller)
            gc.collect()
            if any(isinstance(garbage, KafkaError) for garbage in gc.garbage):
                left[str(case)] += 1
            gc.garbage.clear()
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
    assert left == {}
