"""`ottla reconcile` on a pipeline of two topics."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import ottla.testing
from ottla.cli.app import run as run_command
from ottla.client.blocking_producer import BlockingProducer
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, parse_bootstrap

STAMPS = "ottla.monitor.reconcile.stamps:StampingInterceptor"
COUNTS = "ottla.monitor.reconcile.counts:CountingInterceptor"
RECORDS = 50


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with ottla.testing.cluster() as cluster:
        yield cluster.bootstrap


def reconcile(bootstrap: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run_command(["reconcile", *words, "--bucket", "10s", "--settle", "0s", "--json", "-b", bootstrap])
    return code, json.loads(capsys.readouterr().out)


def write(bootstrap: str, topic: str, *interceptors: str) -> None:
    """Writes records with timestamps one minute ago, so that their time bucket is complete."""
    timestamp = int(time.time() * 1000) - 60_000
    config = {"bootstrap.servers": bootstrap, "interceptor.classes": ",".join(interceptors)}
    with BlockingProducer(config) as producer:
        for number in range(RECORDS):
            producer.send(topic, str(number).encode(), timestamp_ms=timestamp)


def copy(bootstrap: str, source: str, target: str, *, without: tuple[int, ...], twice: tuple[int, ...]) -> None:
    """Copies a topic as a pipeline that loses and repeats some records."""

    async def scenario() -> None:
        settings = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))
        async with Consumer(settings, ConsumerSettings()) as consumer, Producer(settings) as producer:
            await consumer.assign(await consumer.partitions(source))
            await consumer.seek_to_beginning()
            done = 0
            while done < RECORDS:
                for record in await consumer.poll():
                    done += 1
                    number = int(record.value)
                    for _ in range(0 if number in without else 2 if number in twice else 1):
                        await producer.send(target, record.value, headers=record.headers, timestamp_ms=record.timestamp)

    asyncio.run(scenario())


def test_counts_of_producers_and_logs(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(bootstrap, "plain", COUNTS)
    copy(bootstrap, "plain", "plain-copy", without=(3, 4), twice=())
    stages = ("-s", "log=plain", "-s", "copy=plain-copy")
    code, report = reconcile(bootstrap, capsys, *stages, "--produced")
    assert code == 1
    assert [(row["stage"], row["records"], row["missing"]) for row in report["stages"]] == [
        ("produced", RECORDS, 0),
        ("log", RECORDS, 0),
        ("copy", RECORDS - 2, 2),
    ]
    assert reconcile(bootstrap, capsys, "-s", "log=plain", "--produced")[0] == 0


def test_stamps_say_which_records(
    bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stamp has the time of the send: the clock is set back, so that the stamp's bucket is complete.
    past = time.time_ns() - 60 * 10**9
    monkeypatch.setattr("ottla.monitor.reconcile.stamps.time.time_ns", lambda: past)
    write(bootstrap, "stamped", STAMPS)
    monkeypatch.undo()
    copy(bootstrap, "stamped", "stamped-copy", without=(3, 4), twice=(7, 8))
    code, report = reconcile(bootstrap, capsys, "-s", "log=stamped", "-s", "copy=stamped-copy")
    assert code == 1
    log, copied = report["stages"]
    assert (log["records"], log["missing"], log["doubled"]) == (RECORDS, 0, 0)
    # The counts agree, but the records differ.
    assert (copied["records"], copied["missing"], copied["doubled"]) == (RECORDS, 2, 2)
    assert [text.split(":")[1] for text in copied["named"]] == ["3-4"]


def test_a_stage_that_does_not_exist_is_named(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["reconcile", "-s", "log=nowhere", "-b", bootstrap]) == 1
    assert "There is no topic 'nowhere' for the stage log." in capsys.readouterr().err
    assert run_command(["reconcile", "-s", "nowhere", "-b", bootstrap]) == 2
    assert "NAME=TOPIC" in capsys.readouterr().err
