"""Ratios, goals and the benchmark's report about them."""

from __future__ import annotations

import os

import pytest

from bench import report
from bench.cases import Goal
from bench.clients import SUMMARY
from bench.measure import cpu_seconds, resident_bytes
from bench.runner import Figure, Result, alternating

LESS = Goal(ratio=0.4)
MORE = Goal(ratio=1.0, at_most=False)


def figure(goal: Goal | None, kafka: list[float], ottla: list[float]) -> Figure:
    return Figure("broker CPU s/GB", goal, {"kafka": kafka, "ottla": ottla})


def test_medians_decide_from_the_right_side() -> None:
    assert figure(LESS, [10, 11, 900], [4, 4.4, 0.1]).ratio == pytest.approx(4 / 11)
    assert figure(LESS, [10], [4]).met
    assert not figure(LESS, [10], [4.1]).met
    assert figure(MORE, [10], [10]).met
    assert not figure(MORE, [10], [9]).met


def test_the_summary_says_where_we_lose(capsys: pytest.CaptureFixture[str]) -> None:
    results = [
        Result("produce", "small", [figure(LESS, [10], [1])]),
        Result("consume", "large", [figure(LESS, [10], [5])]),
    ]
    report.print_summary(results, "Kafka")
    text = capsys.readouterr().out
    assert "1 of 2 goals met." in text
    assert "consume: large: broker CPU s/GB 0.50 x Kafka, goal <= 0.4" in text
    assert "produce: small" not in text


def test_the_worst_loss_comes_first() -> None:
    slow = Figure("records/s", MORE, {"kafka": [100], "ottla": [20]})
    results = [Result("a", "b", [figure(LESS, [10], [5]), slow]), Result("c", "d", error="why")]
    first, second, third = report.loss_lines(results, "Kafka")
    assert "records/s 0.20" in first
    assert "broker CPU s/GB 0.50" in second
    assert third == "c: d: not measured: why"
    assert report.tally(results) == (0, 2)


def test_turns_alternate() -> None:
    assert alternating(["a", "b"], 0) == ["a", "b"]
    assert alternating(["a", "b"], 1) == ["b", "a"]


def test_the_tools_summary_is_read() -> None:
    text = (
        "2000 records sent, 8130.081301 records/sec (0.78 MB/sec), 64.75 ms avg latency, 88.00 ms max latency, "
        "76 ms 50th, 87 ms 95th, 88 ms 99th, 90 ms 99.9th.\n"
    )
    match = SUMMARY.search(text)
    assert match is not None
    assert (match["count"], match["rate"], match["p50"], match["p99"]) == ("2000", "8130.081301", "76", "88")


def test_this_process_is_measured() -> None:
    before = cpu_seconds(os.getpid())
    sum(number * number for number in range(300_000))
    assert cpu_seconds(os.getpid()) >= before
    assert 5_000_000 < resident_bytes(os.getpid()) < 10_000_000_000
