"""Tasks on real Spark that fail, stop and move: every record arrives exactly once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import cluster
from tests.support.connect_live import LiveWorker, worker_properties
from tests.support.connect_reading import committed_values
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PLUGINS = str(Path(__file__).parents[1] / "support" / "connect_plugins")
STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    with cluster(settings={"group.initial.rebalance.delay.ms": "0"}) as running:
        client = Topics(running.bootstrap)
        yield client
        client.close()


def properties(topics: Topics, name: str) -> dict[str, str]:
    return worker_properties(topics.bootstrap, name, plugin_path=PLUGINS, value_converter=STRING)


def kept(directory: Path) -> list[str]:
    return sorted(
        json.loads(line)["value"] for path in directory.glob("*.json") for line in path.read_text().splitlines()
    )


def expected(until: int) -> list[str]:
    return sorted(f"{counter}-{number}" for counter in range(2) for number in range(until))


def test_another_worker_goes_on_where_the_first_one_stopped(
    topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    topic, target, control = topics.create(partitions=2), tmp_path / "kept", tmp_path / "control"
    control.mkdir()
    (control / "until").write_text("60")
    with LiveWorker(properties(topics, "moves"), spark) as first:
        first.put(
            "count",
            connector_class="CountingSource",
            topic=topic,
            until="0",
            control=str(control),
            partitions="2",
            step="20",
            tasks_max="2",
        )
        first.put("keep", connector_class="KeepingSink", topics=topic, directory=str(target))
        first.wait(lambda: len(kept(target)) >= 120, "count", "keep")
        # The worker is stopped while there are new records to copy.
        (control / "until").write_text("120")
    with LiveWorker(properties(topics, "moves"), spark) as second:
        second.wait(lambda: len(kept(target)) >= 240, "count", "keep")
        offsets = second.request("GET", "/connectors/count/offsets")["offsets"]
        assert sorted(offset["offset"]["at"] for offset in offsets) == [120, 120]
        second.wait(lambda: second.request("GET", "/connectors/keep/tasks/0/progress").get("lag") == 0)
    assert kept(target) == expected(120)
    assert asyncio.run(committed_values(topics.bootstrap, topic)) == expected(120)


def test_a_batch_that_failed_after_it_was_written_comes_again_as_the_same(
    topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    topic, target, control = topics.create(partitions=1), tmp_path / "kept", tmp_path / "control"
    control.mkdir()
    (control / "fail").touch()
    with LiveWorker(properties(topics, "again"), spark) as worker:
        worker.put("count", connector_class="CountingSource", topic=topic, until="100", partitions="2", step="50")
        worker.put(
            "keep-again",
            connector_class="KeepingSink",
            topics=topic,
            directory=str(target),
            control=str(control),
            tasks_restart_max_attempts="0",
        )
        assert "told to fail after the write" in worker.wait_for_failure("keep-again")
        (first,) = target.glob("*.json")
        content = first.read_text()
        assert worker.request("GET", "/connectors/keep-again/offsets")["offsets"][0]["offset"] == {"kafka_offset": 0}
        (control / "fail").unlink()
        worker.request("POST", "/connectors/keep-again/tasks/0/restart")
        worker.wait(lambda: len(kept(target)) >= 200, "count", "keep-again")
        assert first.read_text() == content, "the same batch has the same records"
    assert kept(target) == expected(100)


def test_a_batch_that_costs_every_process_fails_its_task(topics: Topics, spark: SparkSession, tmp_path: Path) -> None:
    topic, control = topics.create(partitions=1), tmp_path / "control"
    control.mkdir()
    (control / "die").touch()
    with LiveWorker(properties(topics, "costs"), spark) as worker:
        worker.put(
            "count",
            connector_class="CountingSource",
            topic=topic,
            until="40",
            control=str(control),
            errors_retry_delay_max_ms="100",
            tasks_restart_max_attempts="0",
        )
        assert "LostAttemptError: The process that writes this batch was lost 3 times" in worker.wait_for_failure(
            "count"
        )
        (control / "die").unlink()
        worker.request("POST", "/connectors/count/tasks/0/restart")
        worker.wait(lambda: len(asyncio.run(committed_values(topics.bootstrap, topic))) >= 40, "count")
    assert asyncio.run(committed_values(topics.bootstrap, topic)) == sorted(f"0-{number}" for number in range(40))


def test_what_may_pass_by_itself_is_waited_for(topics: Topics, spark: SparkSession, tmp_path: Path) -> None:
    topic, target, control = topics.create(partitions=1), tmp_path / "kept", tmp_path / "control"
    control.mkdir()
    (control / "retry").touch()
    with LiveWorker(properties(topics, "passes"), spark) as worker:
        for name, config in (
            ("count", {"connector_class": "CountingSource", "topic": topic, "until": "40", "partitions": "2"}),
            ("keep-waiting", {"connector_class": "KeepingSink", "topics": topic, "directory": str(target)}),
        ):
            worker.put(name, **config, control=str(control), errors_retry_delay_max_ms="500")
        # A task that has been retrying for two seconds is shown as failed, so the states are not looked at.
        worker.wait(lambda: worker.request("GET", "/connectors/count/tasks/0/progress").get("retries", 0) > 0)
        assert "come back later" in worker.request("GET", "/connectors/count/tasks/0/progress")["last_error"]
        (control / "retry").unlink()
        worker.wait(lambda: len(kept(target)) >= 80)
    assert kept(target) == expected(40)
    assert asyncio.run(committed_values(topics.bootstrap, topic)) == expected(40)


# Rows that are transformed go through Spark; others are read and written in one function.
MARKED = {"transforms": "mark", "transforms_mark_type": "InsertHeader"} | {
    "transforms_mark_header": "seen",
    "transforms_mark_value_literal": "yes",
}


@pytest.mark.parametrize("more", [{}, MARKED], ids=["as-they-are", "transformed"])
def test_what_has_passed_before_spark_tries_again_fails_no_task(
    topics: Topics, spark: SparkSession, tmp_path: Path, more: dict[str, str]
) -> None:
    """Only the first attempt of a Spark task may write, because a later attempt does not know why it runs."""
    topic, control = topics.create(), tmp_path / "control"
    control.mkdir()
    (control / "retry-once").touch()
    with LiveWorker(properties(topics, topics.name("once")), spark) as worker:
        worker.put(
            "once", connector_class="CountingSource", topic=topic, until="40", partitions="2", control=str(control),
            **more,
        )  # fmt: skip
        worker.wait(lambda: len(topics.read(topic)) == 80)
        assert worker.request("GET", "/connectors/once/tasks/0/progress")["retries"] == 1


def test_a_sink_that_is_dead_and_then_slow_delays_no_other_sink_and_catches_up(
    topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    """The topic decouples them: the source and the other sink are not affected."""
    topic, quick, late, control = topics.create(partitions=1), tmp_path / "q", tmp_path / "l", tmp_path / "control"
    control.mkdir()
    (control / "retry").touch()
    count_control = tmp_path / "told"
    count_control.mkdir()
    (count_control / "until").write_text("100")
    with LiveWorker(properties(topics, "late"), spark) as worker:
        worker.put(
            "count",
            connector_class="CountingSource",
            topic=topic,
            until="0",
            partitions="2",
            control=str(count_control),
        )
        worker.put("quick", connector_class="KeepingSink", topics=topic, directory=str(quick))
        worker.put(
            "late", connector_class="KeepingSink", topics=topic, directory=str(late), control=str(control),
            batch_max_records="50", errors_retry_delay_max_ms="200",
        )  # fmt: skip

        def progress() -> dict[str, Any]:
            answer: dict[str, Any] = worker.request("GET", "/connectors/late/tasks/0/progress")
            return answer

        worker.wait(lambda: len(kept(quick)) == 200 and progress().get("retries", 0) > 2, "count", "quick")
        assert kept(late) == []
        assert "the target is away" in progress()["last_error"]
        assert worker.request("GET", "/connectors/late/offsets")["offsets"][0]["offset"] == {"kafka_offset": 0}

        (control / "slow").write_text("1.5")
        (control / "retry").unlink()
        (count_control / "until").write_text("400")
        worker.wait(lambda: len(kept(quick)) == 800 and len(kept(late)) >= 50, "count", "quick")
        assert len(kept(late)) < 800, "it was to be slow"

        (control / "slow").unlink()
        worker.wait(lambda: len(kept(late)) >= 800 and progress().get("lag") == 0, "count", "quick", "late")
    assert kept(late) == kept(quick) == expected(400)
