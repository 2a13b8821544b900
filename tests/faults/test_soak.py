"""A short soak with a leak in it: the checks of records find nothing, and the verdict finds the leak."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

import ottla.testing
from tests.soak.jobs import Findings, Job
from tests.soak.soak import soak

pytestmark = pytest.mark.faults


class Hoarder(Job):
    """Opens connections to node 3 and keeps them: from outside it looks as if the node leaked descriptors."""

    pause_s = 0.5

    def __init__(self, findings: Findings, cluster: ottla.testing.Cluster, stack: ExitStack) -> None:
        super().__init__(findings)
        self._cluster = cluster
        self._stack = stack

    def step(self) -> None:
        host, _, port = self._cluster.node(3).address.rpartition(":")
        try:
            self._stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
        except OSError:
            # The node restarts, which it does in the first tenth only.
            self.counts["connections refused"] += 1


def test_a_planted_leak_is_found_and_nothing_is_lost(faults_seconds: float) -> None:
    with ExitStack() as stack:
        result = soak(faults_seconds, more_jobs=lambda findings, cluster: [Hoarder(findings, cluster, stack)])
    assert result.findings == []
    for count in ("records read", "transactions checked", "topics created and deleted", "members joined", "restarts"):
        assert result.counts[count] > 0, count
    grown = {(verdict.measure.name, verdict.node_id) for verdict in result.verdicts if not verdict.is_flat}
    assert ("descriptors", 3) in grown
