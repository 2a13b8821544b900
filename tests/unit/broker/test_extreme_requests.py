"""Well-formed requests with extreme values, for every API: answered or refused, with bounded work and no defect.

`tests/faults/test_extreme_requests.py` sends more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.extreme_runs import APIS, ExtremeRun, name_of

REQUESTS = 12


@pytest.fixture
def started() -> Iterator[Callable[[int], ExtremeRun]]:
    runs: list[ExtremeRun] = []

    def start(seed: int) -> ExtremeRun:
        runs.append(ExtremeRun(seed))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


@pytest.mark.parametrize("api", APIS, ids=name_of)
def test_extreme_values_do_no_harm(started: Callable[[int], ExtremeRun], api: tuple[int, bool]) -> None:
    api_key, at_controller = api
    run = started(api_key)
    for _ in range(REQUESTS):
        run.send(api_key, at_controller=at_controller)
    run.check_service()


@pytest.mark.parametrize("seed", range(4))
def test_extreme_values_of_all_apis_survive_time_and_restart(started: Callable[[int], ExtremeRun], seed: int) -> None:
    """What was stored is replayed, and what was scheduled happens."""
    run = started(seed)
    for _ in range(25):
        run.send_any()
    run.check_service()
    run.node.run_for(700)
    run.check_service()
    run.node.restart()
    run.check_service()
