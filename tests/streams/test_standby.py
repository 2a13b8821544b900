"""Standby copies: they follow changelogs, answer queries with their lag, and take over without a full restore."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from ottla.streams import Application, Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, StreamsError
from ottla.streams.runtime import local_states, standby
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.queries import StoreUnavailableError
from ottla.streams.runtime.standby import Standbys
from tests.streams.live import Live, eventually
from tests.streams.test_application import assert_exact, total
from tests.support.streams_workers import plan_of

TEXT = Serdes.string()


def start(live: Live, directory: Path) -> Application:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    stream.count(Materialized.as_("counts")).to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings = {
        "application.id": "copied",
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 20,
        "state.dir": str(directory),
        "num.standby.replicas": 1,
        "application.server": f"127.0.0.1:{port}",
    }
    application = Application(builder.build(), settings, runs_on="threads")
    application.start()
    application.wait_running(60)
    return application


def statistics(application: Application) -> dict[str, Any]:
    return application.statistics()[0]


def test_a_copy_takes_over_without_a_full_restore(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_states, "_INTERVAL_S", 0.0)
    live.create("in", "out", partitions=2)
    first, second = start(live, tmp_path / "one"), start(live, tmp_path / "two")
    for application in (first, second):
        eventually(
            lambda application=application: (
                len(statistics(application)["tasks"]) == 1 and len(statistics(application)["standbys"]) == 1
            )
        )
    rows = [(f"k{number % 50}", "x") for number in range(500)]
    live.write("in", rows)
    eventually(lambda: total(live, "out") == 500)

    def is_copied() -> bool:
        """Every key, read from copies alone."""
        store = second.store("counts", stale=True, partition=copied)
        return sum(value.value for _, value in store.all()) == wanted and store.lag == 0

    copied = int(statistics(second)["standbys"][0].split("_")[1])
    owner = {
        partition: sum(v.value for _, v in first.store("counts", partition=partition).all()) for partition in (0, 1)
    }
    assert sum(owner.values()) == 500
    wanted = owner[copied]
    metadata = second.query_metadata_for_key("counts", "k1")
    assert len(metadata.standby_hosts) == 1
    assert metadata.active_host not in metadata.standby_hosts
    # The other instance goes away; its copy answers, and its task starts here.
    eventually(lambda: restored_position(second, copied) > 0)
    assert first.close()
    eventually(lambda: is_copied())
    eventually(lambda: len(statistics(second)["tasks"]) == 2)
    # The changelog of the partition had hundreds of records.
    assert statistics(second)["restored"] < 50
    live.write("in", rows)
    eventually(lambda: total(live, "out") == 1000)
    assert second.store("counts").get("k1").value == 20
    assert second.close()
    assert_exact(live, "out", {f"k{number}": 20 for number in range(50)})
    with pytest.raises(StoreUnavailableError):
        second.store("counts")


def restored_position(application: Application, partition: int) -> int:
    """How far the copy of a partition has read its changelog; 0 if there is no copy."""
    try:
        answer = application._known_queries()._ask_worker(
            statistics(application)["queries"],
            {"store": "counts", "partition": partition, "operation": "range", "arguments": {}, "stale": True},
        )
    except StoreUnavailableError:
        return 0
    (offsets,) = answer["position"].values() if "position" in answer else ({},)
    # Records of the changelog and markers of transactions; all rows are there if their counts are.
    rows = answer.get("rows", ())
    return 0 if len(rows) < 20 else max(offsets.values())


def test_copies_go_on_after_any_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    closed: list[Any] = []

    class BadConsumer:
        async def assign(self, _: Any) -> None:
            opened.append(self)
            if len(opened) < 3:
                raise [StreamsError("the state is in use"), KeyError("a defect")][len(opened) - 1]
            await asyncio.sleep(3600)

        async def close(self) -> None:
            closed.append(self)

    async def run() -> None:
        planned = PlannedTask(group=0, partition=0, names=(), topics=())
        plan = plan_of([planned])
        nothing: Any = None
        copies = Standbys(nothing, nothing, plan, nothing, LocalStates(None, {}))

        async def open_nothing(_: Any) -> None:
            """The task has no store."""

        monkeypatch.setattr(copies, "_open", open_nothing)
        await copies.follow(["0_0"])
        async with asyncio.timeout(120):
            while len(opened) < 3:
                await asyncio.sleep(0)
        await copies.close()

    monkeypatch.setattr(standby, "changelog_consumer", lambda _: BadConsumer())
    monkeypatch.setattr(standby, "_RETRY_SECONDS", 0.0)
    asyncio.run(run())
    assert closed == opened
