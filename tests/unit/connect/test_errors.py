"""Trying again: for how long, with which pauses, and when not."""

from __future__ import annotations

import random

import pytest

from ottla.connect.api import ConnectError, RetriableError
from ottla.connect.errors import ErrorPolicy, retried


class Time:
    def __init__(self) -> None:
        self.now_seconds = 0.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.now_seconds

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_seconds += seconds


def failing(times: int, error: Exception) -> tuple[list[int], object]:
    calls: list[int] = []

    def operation() -> str:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return "done"

    return calls, operation


def test_pauses_double_up_to_the_longest() -> None:
    time = Time()
    policy = ErrorPolicy(retry_timeout_ms=-1, retry_delay_max_ms=1000)
    _, operation = failing(5, RetriableError("busy"))
    result = retried(operation, policy, now=time.now, wait=time.wait, chance=random.Random(1))  # type: ignore[arg-type]
    assert result == "done"
    assert time.waits[:2] == [0.3, 0.6]
    assert all(0 <= wait <= 1.0 for wait in time.waits[2:])
    assert len(time.waits) == 5


def test_without_a_timeout_there_is_one_attempt() -> None:
    time = Time()
    calls, operation = failing(1, RetriableError("busy"))
    with pytest.raises(RetriableError):
        retried(operation, ErrorPolicy(), now=time.now, wait=time.wait)  # type: ignore[arg-type]
    assert (len(calls), time.waits) == (1, [])


def test_the_timeout_ends_it_and_the_last_pause_is_cut() -> None:
    time = Time()
    _, operation = failing(100, RetriableError("busy"))
    with pytest.raises(RetriableError):
        retried(operation, ErrorPolicy(retry_timeout_ms=1000), now=time.now, wait=time.wait)  # type: ignore[arg-type]
    assert time.waits == pytest.approx([0.3, 0.6, 0.1])


def test_what_will_not_pass_is_not_tried_again() -> None:
    calls, operation = failing(1, ConnectError("no such table"))
    with pytest.raises(ConnectError):
        retried(operation, ErrorPolicy(retry_timeout_ms=-1), wait=lambda _: None)  # type: ignore[arg-type]
    assert len(calls) == 1


def test_stopping_ends_the_waiting() -> None:
    calls, operation = failing(100, RetriableError("busy"))
    with pytest.raises(RetriableError):
        retried(operation, ErrorPolicy(retry_timeout_ms=-1), wait=lambda _: True)  # type: ignore[arg-type]
    assert len(calls) == 1


def test_settings_are_kafka_connects() -> None:
    assert ErrorPolicy.from_config({}) == ErrorPolicy()
    policy = ErrorPolicy.from_config(
        {
            "errors.tolerance": "ALL",
            "errors.retry.timeout": "5000",
            "errors.retry.delay.max.ms": "100",
            "errors.log.enable": "true",
            "errors.log.include.messages": "true",
            "errors.deadletterqueue.topic.name": "dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
    )
    assert policy == ErrorPolicy(
        tolerates_all=True,
        retry_timeout_ms=5000,
        retry_delay_max_ms=100,
        logs=True,
        logs_messages=True,
        dead_letter_topic="dead",
        dead_letter_replication_factor=1,
        dead_letter_headers=True,
    )
    assert policy.looks_at_failures
