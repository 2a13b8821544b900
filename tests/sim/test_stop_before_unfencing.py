"""A node that stops after its registration, while the controller that would unfence it is unreachable."""

from __future__ import annotations

import pytest

from ottla.sim.kernel import SECOND_US
from tests.sim.test_registration import Pair


@pytest.mark.parametrize("is_controlled", [True, False])
def test_a_stop_does_not_wait_for_the_controller_to_unfence_the_node(*, is_controlled: bool) -> None:
    pair = Pair()
    pair.second.properties["controlled.shutdown.enable"] = str(is_controlled).lower()
    pair.second.stop()
    pair.run(1)
    pair.second.start()
    run = pair.second._run
    assert run is not None

    def is_registered() -> bool:
        session = None if run._lifecycle is None else run._lifecycle._session
        return session is not None and session.epoch >= 0 and session._registered is None

    assert pair.kernel.run_until(pair.kernel.now_us + 5 * SECOND_US, is_registered)
    assert not run.is_started
    pair.cluster.nodes[1].kill()
    pair.run(1)
    pair.second.stop()
    pair.run(30)
    assert not pair.second.is_running
    assert pair.left_epoch() is not None
    assert pair.cluster.findings == []
