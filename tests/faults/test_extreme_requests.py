"""Well-formed requests with extreme values, for as long as the faults last. See `tests/support/extreme_requests.py`."""

from __future__ import annotations

import time

import pytest

from tests.support.extreme_runs import APIS, ExtremeRun, Figures, name_of

pytestmark = pytest.mark.faults

REQUESTS = 12


def test_extreme_values_do_no_harm(faults_seconds: float, faults_seed: int) -> None:
    """Prints the seed that repeats a failure, and the longest time that one request has kept the loop from others."""
    end = time.monotonic() + faults_seconds
    worst: list[tuple[float, int, str]] = []
    seed = faults_seed
    requests = 0
    while time.monotonic() < end:
        seed += 1
        api = APIS[seed % len(APIS)]
        figures = one_run(seed, api if seed // len(APIS) % 2 else None)
        requests += figures.requests
        worst.append((figures.longest_seconds, figures.longest_frame, name_of(api)))
    print(f"\n{requests} requests, seeds up to {seed}")
    for seconds, size, name in sorted(worst, reverse=True)[:5]:
        print(f"{seconds * 1000:6.0f} ms for {size} bytes, {name}")


def one_run(seed: int, api: tuple[int, bool] | None) -> Figures:
    """Requests of one API, or of any."""
    run = ExtremeRun(seed)
    try:
        for _ in range(REQUESTS):
            if api is None:
                run.send_any()
            else:
                run.send(api[0], at_controller=api[1])
        run.check_service()
        run.node.run_for(700)
        run.node.restart()
        run.check_service()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: one_run({seed}, {api}) repeats it: {error}") from error
    finally:
        run.close()
    return run.figures
