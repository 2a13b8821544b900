"""The verdict of a soak: leaks are found, noise and warm-up are not taken for one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.soak.judge import MEASURES, growth_of, judge
from tests.soak.report import table, write_chart, write_json
from tests.soak.samples import ALL_NODES, Sample, series


def verdict(name: str, values: Sequence[float | None]) -> bool:
    verdicts = judge({(3, name): values})
    assert len(verdicts) == 1
    return verdicts[0].is_flat


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


def sample(tenth: int, *, node_id: int, pid: int, earlier: int) -> Sample:
    return Sample(
        tenth=tenth,
        node_id=node_id,
        pid=pid,
        resident_bytes=50_000_000,
        descriptors=40,
        threads=6,
        # A start costs a second of CPU, which no request pays for.
        cpu_s=1.0 + earlier * 0.01,
        requests=100.0 * earlier,
        disk_bytes=1_000_000,
    )


def samples(tenths: int) -> list[Sample]:
    """Node 1 is restarted in every tenth: its counters begin again. Node 3 lives throughout."""
    all_samples = []
    for tenth in range(tenths):
        for place in range(4):
            all_samples.append(sample(tenth, node_id=1, pid=2 * tenth + place // 2, earlier=place % 2))
            all_samples.append(sample(tenth, node_id=3, pid=1_000, earlier=4 * tenth + place))
    return all_samples


def test_cpu_per_request_does_not_count_starts() -> None:
    values_of = series(samples(10), 10, node_kept=3)
    assert values_of[ALL_NODES, "CPU per request"] == pytest.approx([0.01 / 100] * 10)


def test_a_leader_that_moves_does_not_change_the_cpu_per_request() -> None:
    """A request costs a leader of many partitions more: first node 1, in the second half node 3."""
    moved = []
    for tenth in range(10):
        for place in range(2):
            for node_id, leads in ((1, tenth < 5), (3, tenth >= 5)):
                earlier = sample(tenth, node_id=node_id, pid=node_id, earlier=0)
                cpu_s = (3 if leads else 1) * 0.01 * (2 * tenth + place)
                moved.append(dataclasses.replace(earlier, cpu_s=cpu_s, requests=100.0 * (2 * tenth + place)))
    assert series(moved, 10, node_kept=3)[ALL_NODES, "CPU per request"] == pytest.approx([0.02 / 100] * 10)


def test_the_threads_of_a_restarted_node_are_not_judged() -> None:
    values_of = series(samples(10), 10, node_kept=3)
    assert [node_id for node_id, name in values_of if name == "threads"] == [3]


def test_a_tenth_in_which_a_restarted_node_was_down_is_left_out(tmp_path: Path) -> None:
    seen = [look for look in samples(10) if (look.node_id, look.tenth) not in {(1, 4), (1, 5)}]
    values_of = series(seen, 10, node_kept=3)
    assert values_of[1, "descriptors"] == [40.0] * 4 + [None] * 2 + [40.0] * 4
    verdicts = judge(values_of)
    assert all(judged.is_flat for judged in verdicts)
    assert None not in values_of[ALL_NODES, "CPU per request"]
    # Memory, descriptors and disk.
    assert table(verdicts).count("down") == 2 * 3
    write_json(tmp_path / "soak.json", verdicts, {}, [])
    assert "NaN" not in (tmp_path / "soak.json").read_text()
    write_chart(tmp_path / "soak.svg", verdicts)
    # The places of the others stay: three a tenth.
    assert growth_of([0.0, 3.0, None, None, 12.0, None]) == 15.0


def test_the_node_that_lives_throughout_is_seen_in_every_tenth() -> None:
    for missing in ({4}, set(range(10))):
        seen = [look for look in samples(10) if look.node_id == 1 or look.tenth not in missing]
        with pytest.raises(AssertionError, match="node 3 was not seen"):
            series(seen, 10, node_kept=3)


def test_a_leak_is_found_beside_a_tenth_without_a_value() -> None:
    assert not verdict("threads", [6.0 + tenth if tenth != 4 else None for tenth in range(10)])
    assert verdict("threads", [6.0, *[None] * 9])


def test_the_table_has_every_measure_and_names_what_grows() -> None:
    growing: list[float | None] = [40.0 + 10 * tenth for tenth in range(10)]
    values_of = {**series(samples(10), 10, node_kept=3), (1, "descriptors"): growing}
    text = table(judge(values_of))
    assert all(measure.name in text for measure in MEASURES)
    assert [line.split(",")[0] for line in text.splitlines() if line.endswith("GROWS")] == ["descriptors"]
