"""The life of an application: failures of workers, pause and resume, deleted topics, shutdown of all instances."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import urllib.request
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from examples.streams import balances
from ottla.client.blocking import BlockingProducer
from ottla.streams import (
    Application,
    Consumed,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    MissingSourceTopicError,
    Produced,
    Serdes,
    State,
    StreamsBuilder,
    StreamsError,
    Topology,
    UncaughtExceptionResponse,
)
from ottla.streams.runtime import metrics
from ottla.streams.runtime.control import ControlServer
from ottla.streams.runtime.measures import WorkerMeasures
from ottla.streams.runtime.metrics import METRICS, MetricHistory
from ottla.streams.runtime.queries import StoreUnavailableError
from tests.streams.live import Live, eventually

TEXT, NUMBER = Serdes.string(), Serdes.integer()
_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    return f"life{next(_numbers)}"


def application_of(live: Live, topology: Topology, name: str, **properties: Any) -> Application:
    settings = {
        "application.id": name,
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 20,
        "heartbeat.interval.ms": 100,
        "state.dir": live.state_directory,
        **{key.replace("_", "."): value for key, value in properties.items()},
    }
    return Application(topology, settings, runs_on="threads")


def started(live: Live, topology: Topology, name: str, **properties: Any) -> Application:
    application = application_of(live, topology, name, **properties)
    application.start()
    application.wait_running(60)
    return application


def mapping(name: str, function: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT))
    stream.map_values(function).to(f"{name}-out", Produced.with_(TEXT, TEXT))
    return builder.build()


class Fragile:
    """Fails at the word `bad`, the first `times` times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.lock = threading.Lock()

    def __call__(self, value: str) -> str:
        with self.lock:
            if value == "bad" and self.times:
                self.times -= 1
                raise ValueError("a bad word")
        return value.upper()


def values(live: Live, topic: str) -> list[str | None]:
    return sorted(value or "" for _, value in live.read(topic))


def test_an_error_ends_the_instance_and_says_where(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    states: list[State] = []
    application = application_of(live, mapping(name, Fragile(9)), name, num_stream_threads=2)
    application.set_state_listener(lambda new, _: states.append(new))
    application.start()
    application.wait_running(60)
    live.write(f"{name}-in", [("k", "good"), ("k", "bad")])
    with pytest.raises(ValueError, match="a bad word") as caught:
        application.wait(60)
    assert any(f"Task 0_0, {name}-in-0, offsets " in note for note in caught.value.__notes__)
    eventually(lambda: application.state is State.ERROR)
    assert states[-2:] == [State.PENDING_ERROR, State.ERROR]
    # Uncommitted results are not visible, and the group has no member when the next instance starts.
    assert live.admin.call(lambda admin: admin.groups.describe([name]))[name].members == ()


def test_a_listener_that_fails_stops_no_worker(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    application = application_of(live, mapping(name, Fragile(0)), name)

    def listener(new: State, _: State) -> None:
        raise ValueError(new)

    application.set_state_listener(listener)
    application.start()
    live.write(f"{name}-in", [("k", "good")])
    eventually(lambda: values(live, f"{name}-out") == ["GOOD"])
    assert application.state is State.RUNNING
    assert application.close()
    assert application.close()
    assert application.state is State.NOT_RUNNING


def test_a_control_line_is_closed_without_the_token() -> None:
    reports: list[Any] = []
    server = ControlServer(reports.append)
    address = (server.address.host, server.address.port)
    for content in (b"wrong\n", b"x" * 1_000, b"\xff\xff\n"):
        with socket.create_connection(address, 20) as connection:
            connection.sendall(content)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
    server.close()
    assert reports == []


def test_a_worker_can_be_replaced(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    seen: list[BaseException] = []

    def handler(error: BaseException) -> UncaughtExceptionResponse:
        seen.append(error)
        return UncaughtExceptionResponse.REPLACE_THREAD

    application = application_of(live, mapping(name, Fragile(2)), name)
    application.set_uncaught_exception_handler(handler)
    application.start()
    live.write(f"{name}-in", [("k", "good"), ("k", "bad"), ("k", "last")])
    eventually(lambda: values(live, f"{name}-out") == ["BAD", "GOOD", "LAST"])
    assert [str(error) for error in seen] == ["a bad word"] * 2
    assert application.close()


def test_one_instance_can_end_all_of_them(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=2)
    fragile, sound = mapping(name, Fragile(1)), mapping(name, Fragile(0))
    first, second = started(live, fragile, name), started(live, sound, name)
    for application in (first, second):
        application.set_uncaught_exception_handler(lambda _: UncaughtExceptionResponse.SHUTDOWN_APPLICATION)
    # Enough keys for a record in the partition of the fragile instance.
    live.write(f"{name}-in", [(f"k{number}", "bad") for number in range(16)])
    failures = []
    for application in (first, second):
        with pytest.raises((ValueError, StreamsError)) as caught:
            application.wait(60)
        failures.append(str(caught.value))
        eventually(lambda application=application: application.state is State.ERROR)
    assert any("asked all instances to end" in text for text in failures)
    assert "a bad word" in failures


def test_pause_and_resume(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=2)
    application = application_of(live, mapping(name, str.upper), name)
    application.pause()
    application.start()
    application.wait_running(60)
    live.write(f"{name}-in", [("k", "a")])
    assert application.is_paused
    # A second instance gets no record of the tasks that the paused one keeps.
    eventually(lambda: len(application.statistics()[0]["tasks"]) == 2)
    assert live.read(f"{name}-out") == []
    application.resume()
    eventually(lambda: values(live, f"{name}-out") == ["A"])
    application.pause()
    application.resume()
    live.write(f"{name}-in", [("k", "b")])
    eventually(lambda: values(live, f"{name}-out") == ["A", "B"])
    assert application.close()


def test_a_deleted_source_topic_ends_the_application(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    application = started(live, mapping(name, str.upper), name, metadata_max_age_ms=300)
    live.admin.call(lambda admin: admin.topics.delete([f"{name}-in"]))
    with pytest.raises(MissingSourceTopicError, match=f"Topic {name}-in was deleted"):
        application.wait(60)


def test_an_instance_that_stays_in_its_group_has_its_tasks_again(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=2)
    topology = mapping(name, str.upper)
    first = started(live, topology, name)
    assert first.close(leave_group=False)
    group = live.admin.call(lambda admin: admin.groups.describe([name]))[name]
    assert [len(member.assignment) for member in group.members] == [2]
    second = started(live, topology, name)
    live.write(f"{name}-in", [("k", "a")])
    eventually(lambda: values(live, f"{name}-out") == ["A"])
    assert second.close()


def test_rates_cover_at_least_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    history = MetricHistory()
    measures = asdict(WorkerMeasures())
    for second in range(200):
        # Only for the module: the loops of other threads read the clock as well.
        monkeypatch.setattr(metrics, "time", SimpleNamespace(monotonic=lambda now=second: float(now)))
        # 60 polls in every minute, all of them at its end.
        polls = 60 * (second // 60)
        history.add({"worker": 0, "state": "running", "measures": {**measures, "polls": polls}})
        rates = {metric.name: metric.value for metric in history.metrics("c", "RUNNING", 0)}
        assert float(rates["poll-rate"]) <= 2.0
    assert rates["poll-total"] == 180


def test_metrics_have_kafka_streams_names(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=2)
    settings = {
        "application.id": name,
        "bootstrap.servers": live.bootstrap,
        "state.dir": live.state_directory,
        "commit.interval.ms": 20,
        "processing.exception.handler": LogAndContinueProcessingExceptionHandler,
    }
    application = Application(mapping(name, Fragile(1)), settings, runs_on="threads", metrics_port=0)
    application.start()
    application.wait_running(60)
    live.write(f"{name}-in", [("k", "good"), ("k", "bad"), ("j", "good")])
    eventually(lambda: figures(application).get("process-total") == 3)
    eventually(lambda: figures(application, "stream-task-metrics").get("records-lag") == 0)
    totals = figures(application)
    assert totals["commit-total"] >= 1
    assert totals["task-created-total"] == 2
    assert totals["commit-latency-avg"] > 0
    assert figures(application, "stream-metrics")["alive-stream-threads"] == 1
    assert figures(application, "stream-task-metrics")["dropped-records-total"] == 1
    with urllib.request.urlopen(f"http://127.0.0.1:{application.metrics_port}/metrics") as answer:
        text = answer.read().decode()
    assert f'kafka_streams_stream_thread_metrics_process_total{{thread_id="{name}-StreamThread-1"}} 3' in text
    assert f'kafka_streams_stream_metrics_state{{client_id="{name}",state="RUNNING"}} 1' in text
    reported = {(metric.group, metric.name) for metric in application.metrics()}
    assert reported == set(METRICS)
    assert application.close()


def figures(application: Application, group: str = "stream-thread-metrics") -> dict[str, Any]:
    """The sum of a metric over all of its tags; text as it is."""
    sums: dict[str, Any] = {}
    for metric in application.metrics():
        if metric.group == group:
            before = sums.get(metric.name)
            sums[metric.name] = metric.value if before is None else before + metric.value
    return sums


def test_the_example_answers_for_balances(live: Live, name: str) -> None:
    live.create(f"{name}-in", partitions=2)
    application = started(live, balances.build(f"{name}-in"), name, num_stream_threads=2)
    with BlockingProducer({"bootstrap.servers": live.bootstrap}) as producer:
        for account, amount in (("a", 5), ("b", 7), ("c", 1), ("a", -2)):
            producer.send(f"{name}-in", amount.to_bytes(4, "big", signed=True), account.encode())
        producer.flush()
    eventually(lambda: live.lag(name) == 0)

    def has_balances() -> bool:
        # While a task moves to the second worker, queries fail and are asked again.
        with contextlib.suppress(StoreUnavailableError):
            return [balances.balance_of(application, account) for account in "abcd"] == [3, 7, 1, 0]
        return False

    eventually(has_balances)
    assert application.close()


def test_dead_letters_arrive_exactly_once(live: Live, name: str) -> None:
    live.create(f"{name}-in", f"{name}-out", f"{name}-letters", partitions=1)
    builder = StreamsBuilder()
    stream = builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT))
    stream.map_values(lambda value: str(100 // int(value))).to(f"{name}-out", Produced.with_(TEXT, TEXT))
    application = started(
        live,
        builder.build(),
        name,
        deserialization_exception_handler=LogAndContinueExceptionHandler,
        processing_exception_handler=LogAndContinueProcessingExceptionHandler,
        errors_dead_letter_queue_topic_name=f"{name}-letters",
    )
    live.write(f"{name}-in", [("k", "5"), ("k", "0"), ("k", "4"), ("k", "x")])
    eventually(lambda: len(live.read(f"{name}-letters")) == 2)
    assert live.read(f"{name}-out") == [("k", "20"), ("k", "25")]
    assert live.read(f"{name}-letters") == [("k", "0"), ("k", "x")]
    assert application.close()
