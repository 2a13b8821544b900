"""The verdict of a soak: leaks are found, noise and warm-up are not taken for one."""

from __future__ import annotations

from random import Random

import pytest

from tests.soak.judge import MEASURES, growth_of, judge
from tests.soak.report import table
from tests.soak.samples import Sample, series


def verdict(name: str, values: list[float]) -> bool:
    found = judge({(3, name): values})
    assert len(found) == 1
    return found[0].is_flat


@pytest.mark.parametrize("seed", range(20))
def test_noise_around_a_level_is_flat(seed: int) -> None:
    chosen = Random(seed)
    assert verdict("resident memory", [80e6 * chosen.uniform(0.98, 1.02) for _ in range(10)])
    assert verdict("CPU per request", [90e-6 * chosen.uniform(0.93, 1.07) for _ in range(10)])


@pytest.mark.parametrize("seed", range(20))
def test_a_leak_under_noise_is_found(seed: int) -> None:
    chosen = Random(seed)
    # A fifth of the memory in the whole run.
    assert not verdict(
        "resident memory", [80e6 * (1 + 0.02 * tenth + chosen.uniform(-0.01, 0.01)) for tenth in range(10)]
    )
    assert not verdict("descriptors", [60.0 + 3 * tenth + chosen.randrange(4) for tenth in range(10)])
    assert not verdict(
        "CPU per request", [90e-6 * (1 + 0.04 * tenth + chosen.uniform(-0.03, 0.03)) for tenth in range(10)]
    )


def test_a_thread_that_is_left_in_every_tenth_is_found() -> None:
    assert not verdict("threads", [6.0 + tenth for tenth in range(10)])
    assert verdict("threads", [6.0, 8, 8, 9, 8, 8, 9, 8, 8, 8])


def test_the_first_tenth_is_warm_up() -> None:
    assert verdict("resident memory", [40e6, *[80e6] * 9])


def test_a_disturbed_tenth_or_two_move_nothing() -> None:
    assert verdict("CPU per request", [90e-6, 90e-6, 90e-6, 200e-6, 90e-6, 90e-6, 90e-6, 90e-6, 90e-6, 250e-6])


def test_what_falls_is_flat() -> None:
    assert verdict("resident memory", [120e6 - 3e6 * tenth for tenth in range(10)])
    assert growth_of([9.0, 8.0, 7.0]) == -2.0


def samples(tenths: int) -> list[Sample]:
    """A node that is restarted in every tenth: its counters begin again."""
    found = []
    for tenth in range(tenths):
        for place in range(4):
            of_run = place % 2
            found.append(
                Sample(
                    tenth=tenth,
                    node_id=1,
                    pid=2 * tenth + place // 2,
                    resident_bytes=50_000_000,
                    descriptors=40,
                    threads=6,
                    # A start costs a second of CPU, which no request pays for.
                    cpu_s=1.0 + of_run * 0.01,
                    requests=100.0 * of_run,
                    disk_bytes=1_000_000,
                )
            )
    return found


def test_cpu_per_request_does_not_count_starts() -> None:
    found = series(samples(10), 10)
    assert found[1, "CPU per request"] == pytest.approx([0.01 / 100] * 10)


def test_the_table_has_every_measure_and_names_what_grows() -> None:
    values_of = {**series(samples(10), 10), (1, "descriptors"): [40.0 + 10 * tenth for tenth in range(10)]}
    text = table(judge(values_of))
    assert all(measure.name in text for measure in MEASURES)
    assert [line.split(",")[0] for line in text.splitlines() if line.endswith("GROWS")] == ["descriptors"]
