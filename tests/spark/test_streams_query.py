"""A streams application as a streaming query: epochs, progress, restarts, failures."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from examples.streams.word_count import build
from ottla.streams import Application, Consumed, Produced, Serdes, StreamsBuilder
from tests.streams.live import Live, eventually

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.testing import Cluster

pytestmark = pytest.mark.spark

TEXT = Serdes.string()


def settings(live: Live, name: str) -> dict[str, object]:
    return {
        "application.id": name,
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": live.state_directory,
        "commit.interval.ms": 50,
    }


def is_through(live: Live, query: StreamingQuery) -> bool:
    """True if all input is processed, and the progress of the query shows it."""
    observed = [
        progress.observedMetrics["streams"]
        for progress in query.recentProgress
        if "streams" in progress.observedMetrics
    ]
    return live.lag("epoch-words") == 0 and sum(metrics["records"] for metrics in observed) > 0


def test_epochs_count_exactly_through_a_restart(spark_cluster: Cluster) -> None:
    live = Live(spark_cluster.bootstrap)
    live.create("epoch-lines", "epoch-counts")
    lines = [(None, f"word{number % 7} common") for number in range(2000)]
    for part in (lines[:1000], lines[1000:]):
        application = Application(build("epoch-lines", "epoch-counts"), settings(live, "epoch-words"))
        query = application.start_query(epoch_seconds=1.0)
        live.write("epoch-lines", part)
        eventually(partial(is_through, live, query), 120)
        assert query.isActive
        assert application.close()
        assert not query.isActive
    wanted = Counter(word for _, line in lines for word in line.split())
    seen: dict[str, list[int]] = {}
    for key, value in live.read("epoch-counts"):
        assert value is not None
        seen.setdefault(key, []).append(int(value))
    assert seen == {word: list(range(1, count + 1)) for word, count in wanted.items()}
    live.close()


def test_an_exception_of_the_topology_fails_the_query(spark_cluster: Cluster) -> None:
    live = Live(spark_cluster.bootstrap)
    live.create("epoch-numbers", "epoch-inverse", partitions=1)
    builder = StreamsBuilder()
    stream = builder.stream("epoch-numbers", Consumed.with_(TEXT, TEXT))
    stream.map_values(lambda value: str(1 / int(value))).to("epoch-inverse", Produced.with_(TEXT, TEXT))
    application = Application(builder.build(), settings(live, "epoch-inverses"))
    query = application.start_query(epoch_seconds=1.0)
    live.write("epoch-numbers", [("k", "0")])
    with pytest.raises(Exception, match="ZeroDivisionError"):
        query.awaitTermination(120)
    with pytest.raises(ZeroDivisionError):
        application.wait(60)
    live.close()
