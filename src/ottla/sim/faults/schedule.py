"""The fault schedule: a few kinds of faults per run, at random moments, some in quick succession."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ottla.sim.cluster import SimCluster
from ottla.sim.faults.alterations import LateAlterations
from ottla.sim.faults.disks import BitRot, FailingSync, FullDisk, SlowSync, UnmountedDisk
from ottla.sim.faults.fault import Fault
from ottla.sim.faults.links import ConnectionResets, OneWayPartition, Partition, SlowLinks, SlowReaders
from ottla.sim.faults.processes import ClockJump, Freeze, Kill, KillAtWrite, PowerLoss, Restart
from ottla.sim.faults.segments import DamagedSegments
from ottla.sim.kernel import SECOND_US

__all__ = ["FAULTS", "FaultSchedule"]

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        Kill,
        KillAtWrite,
        Restart,
        Freeze,
        PowerLoss,
        ClockJump,
        Partition,
        OneWayPartition,
        ConnectionResets,
        SlowLinks,
        SlowReaders,
        FullDisk,
        FailingSync,
        SlowSync,
        BitRot,
        LateAlterations,
        UnmountedDisk,
        DamagedSegments,
    )
}


class FaultSchedule:
    """Applies faults at random intervals until `end` is called."""

    def __init__(
        self, cluster: SimCluster, random: Random, names: Sequence[str], *, pause_seconds: tuple[float, float]
    ) -> None:
        self._cluster = cluster
        self._random = random
        self._pause_seconds = pause_seconds
        self._faults = [FAULTS[name](cluster, random) for name in names]
        self._is_over = not names

    def start(self) -> None:
        self._plan()

    def end(self) -> None:
        self._is_over = True

    def _plan(self) -> None:
        # One fault in five follows its predecessor at once.
        pause = 0.05 if self._random.random() < 0.2 else self._random.uniform(*self._pause_seconds)
        self._cluster.kernel.after(round(pause * SECOND_US), self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        fault = self._random.choice(self._faults)
        self._cluster.kernel.trace("fault", fault.name)
        fault.strike()
        self._plan()
