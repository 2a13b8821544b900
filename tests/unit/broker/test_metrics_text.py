"""The text of a scrape, read by Prometheus' own parser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics import scrape as scrape_module
from ottla.broker.metrics.metric import COUNTER, GAUGE, HISTOGRAM, PARTITIONS_PER_STEP, SUMMARY, Distribution, Metric
from ottla.broker.metrics.scrape import RECENT_SECONDS, Recent, Scrape
from ottla.broker.metrics.table import METRICS
from ottla.broker.metrics.text import LINES_PER_PORTION, quantile, render
from ottla.broker.statistics import TIME_PLACES, ApiStatistics
from ottla.metadata.image import PartitionImage
from ottla.model.ids import TopicPartition

SCRAPE: Any = SimpleNamespace()


def parsed(*metrics: Metric) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = "".join(render(metrics, SCRAPE))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_and_labels_come_through() -> None:
    rows = [(('a"b\\c\nd', 3), 7), ((None, 4), 2.5)]
    samples = parsed(
        Metric("one_total", COUNTER, (), "One.", "", lambda _: 12345678901234567),
        Metric("two", GAUGE, ("name", "number"), "Two\nlines.", "", lambda _: rows),
        Metric("three", GAUGE, (), "Nothing now.", "", lambda _: None),
        Metric("four", GAUGE, ("name",), "No rows.", "", lambda _: ()),
    )
    assert samples == {
        ("one_total", ()): 12345678901234567,
        ("two", (("name", 'a"b\\c\nd'), ("number", "3"))): 7.0,
        ("two", (("number", "4"),)): 2.5,
    }


def test_a_histogram_has_the_same_buckets_whatever_it_holds() -> None:
    places = [0] * TIME_PLACES
    # 3 values below 64 us, 2 between 64 and 128 us, 1 of more than a minute.
    places[3], places[7], places[27] = 3, 2, 1
    samples = parsed(Metric("h", HISTOGRAM, ("x",), "H.", "", lambda _: [(("y",), Distribution(places, 70.5, 1e-6))]))
    buckets = {dict(labels)["le"]: value for (name, labels), value in samples.items() if name == "h_bucket"}
    assert (buckets["6.4e-05"], buckets["0.000256"], buckets["16.777216"], buckets["+Inf"]) == (3, 5, 5, 6)
    assert len(buckets) == 11
    assert samples[("h_sum", (("x", "y"),))] == 70.5
    assert samples[("h_count", (("x", "y"),))] == 6


def test_a_summary_tells_quantiles_of_what_is_recent() -> None:
    places, recent = [0] * TIME_PLACES, [0] * TIME_PLACES
    places[4], recent[11] = 1000, 10
    samples = parsed(Metric("s", SUMMARY, (), "S.", "", lambda _: [((), Distribution(places, 9.0, 1e-3, recent))]))
    assert 1.024 <= samples[("s", (("quantile", "0.50"),))] <= 2.048
    assert samples[("s_count", ())] == 1000


def test_quantiles() -> None:
    assert math.isnan(quantile([0, 0], 0.5))
    assert quantile([10], 0.99) <= 1
    assert 64 <= quantile([0, 0, 0, 0, 0, 0, 0, 100], 0.01) <= quantile([0, 0, 0, 0, 0, 0, 0, 100], 0.99) <= 128
    # One in a thousand is far above the rest.
    assert quantile([999, *[0] * 9, 1], 0.99) <= 1
    assert quantile([990, *[0] * 9, 10], 0.999) >= 512


def test_portions_are_small() -> None:
    rows = [((number,), 1.0) for number in range(10 * LINES_PER_PORTION)]
    portions = list(render([Metric("m", GAUGE, ("n",), "M.", "", lambda _: iter(rows))], SCRAPE))
    assert max(portion.count("\n") for portion in portions) <= LINES_PER_PORTION + 1
    assert sum(portion.count("\n") for portion in portions) == len(rows) + 2


def test_recent_looks_back_for_a_minute_or_two() -> None:
    recent = Recent(0.0)
    assert recent.growth("a", [5, 0]) == [5, 0], "since the start, while there is nothing else"
    recent.end_scrape(RECENT_SECONDS)
    assert recent.growth("a", [6, 0]) == [6, 0]
    recent.end_scrape(RECENT_SECONDS + 1)
    assert recent.growth("a", [7, 1]) == [7, 1]
    recent.end_scrape(2 * RECENT_SECONDS)
    assert recent.growth("a", [9, 1]) == [4, 1], "since the scrape a minute before"


def test_times_of_late_answers_are_not_counted_twice() -> None:
    statistics = ApiStatistics()
    # One request was answered at once after 10 us, one was handled in 10 us and answered after 1000 us.
    statistics.handled_times[4] = 2
    statistics.late_handled_times[4] = 1
    statistics.late_times[10] = 1
    total = statistics.total_times()
    assert (total[4], total[10], sum(total)) == (1, 1, 2)


def test_a_row_that_is_none_is_a_pause() -> None:
    rows = [None, (("a",), 1), None, (("b",), 2), None]
    metric = Metric("m", GAUGE, ("x",), "M.", "", lambda _: rows)
    portions = list(render([metric], SCRAPE))
    assert portions.count("") == 3
    assert parsed(metric) == {("m", (("x", "a"),)): 1.0, ("m", (("x", "b"),)): 2.0}
    assert list(render([Metric("n", GAUGE, ("x",), "N.", "", lambda _: [None, None])], SCRAPE)) == ["", ""]


class CountedPartition:
    """A partition that no metric reports, and that counts how often it is looked at."""

    topic, index, counters, is_leader = "t", 0, SimpleNamespace(), False
    parked_fetches = parked_replica_fetches = parked_deletes = ()

    def __init__(self, looks: list[int]) -> None:
        self._looks = looks

    @property
    def leader_state(self) -> None:
        self._looks[0] += 1

    @property
    def parked_produces(self) -> tuple[()]:
        self._looks[0] += 1
        return ()


def test_partitions_without_rows_do_not_make_a_long_step() -> None:
    looks = [0]
    scrape: Any = SimpleNamespace(partitions=[CountedPartition(looks) for _ in range(5 * PARTITIONS_PER_STEP)])
    scrape.partitions_with_pauses = lambda: Scrape.partitions_with_pauses(scrape)
    names = {
        "kafka_cluster_partition_underreplicated",
        "kafka_cluster_partition_underminisr",
        "ottla_replica_max_lag",
        "kafka_server_delayedoperationpurgatory_purgatorysize",
    }
    metrics = [metric for metric in METRICS if metric.name in names]
    assert len(metrics) == len(names)
    for metric in metrics:
        before = [looks[0]]
        before += [looks[0] for _ in render([metric], scrape)]
        before.append(looks[0])
        assert looks[0] - before[0] == 5 * PARTITIONS_PER_STEP
        assert max(after - earlier for earlier, after in pairwise(before)) <= PARTITIONS_PER_STEP


def test_followed_partitions_that_are_not_in_sync_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_statistics(_: object) -> Iterator[None]:
        yield from ()

    monkeypatch.setattr(scrape_module, "replica_statistics", no_statistics)
    partitions = {
        0: partition_image((1, 2, 3), isr=(1, 2, 3), leader=1),
        # This broker, 2, is not in sync again; another follower is not; no replica is on this broker.
        1: partition_image((1, 2, 3), isr=(1, 3), leader=1),
        2: partition_image((1, 2, 3), isr=(1, 2), leader=1),
        3: partition_image((1, 3, 4), isr=(1,), leader=1),
        # A reassignment adds 4; a directory of this broker has failed.
        4: partition_image((1, 2, 4), isr=(1, 2), leader=1, adding=(4,)),
        5: partition_image((1, 2), isr=(1,), leader=1),
    }
    topic = SimpleNamespace(name="t", partitions=partitions)
    broker: Any = SimpleNamespace(
        node_id=2,
        logs=EmptyLogs(),
        replicas=SimpleNamespace(partitions=list, offline={TopicPartition("t", 5)}),
        metadata=SimpleNamespace(image=SimpleNamespace(topics=SimpleNamespace(by_id={"t": topic}))),
    )
    scrape = Scrape(broker, SCRAPE, Recent(0.0))
    assert list(scrape.prepare()) == []
    (metric,) = [metric for metric in METRICS if metric.name == "ottla_replica_out_of_sync_partitions"]
    assert metric.read(scrape) == 2


class EmptyLogs(list[Any]):
    cleaner = SimpleNamespace(statistics=lambda: None)


def partition_image(
    replicas: tuple[int, ...], *, isr: tuple[int, ...], leader: int, adding: tuple[int, ...] = ()
) -> PartitionImage:
    return PartitionImage(replicas, isr, leader, leader_epoch=0, partition_epoch=0, adding_replicas=adding)
