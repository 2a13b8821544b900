"""The measurement of many nodes, on few: `make sim-scale` runs it with 200."""

from __future__ import annotations

from ottla.sim.scale import FINE_SLICE_US, measure


def test_every_phase_ends_and_costs_something() -> None:
    phases = {phase.name: phase for phase in measure(6)}
    assert len(phases) == 7
    # Two syncs and a round trip at least, and no time-out of a session.
    failover = next(phase for name, phase in phases.items() if name.startswith("the controller is killed"))
    assert 0 < failover.virtual_seconds < 5
    assert all(phase.events > 0 for phase in phases.values())
    assert all(phase.virtual_seconds >= FINE_SLICE_US / 1e6 for phase in phases.values())


def test_a_run_depends_on_nothing_but_its_size() -> None:
    first, second = (
        [(phase.name, phase.virtual_seconds, phase.events, phase.requests) for phase in measure(5)] for _ in range(2)
    )
    assert first == second
