"""The statistics of a request: times, sizes, errors, and its line in the request log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import HANDLERS, HandlerSpec, fetch
from ottla.broker.apis.api import Api
from ottla.broker.context import ConnectionContext, ListenerInfo
from ottla.broker.dispatch import Dispatcher
from ottla.broker.loggers import logger_levels, set_logger_level
from ottla.broker.request_log import REQUEST_LOGGER_NAME
from ottla.broker.statistics import TIMED_ALL, TIMED_STRIDE, ApiStatistics, NodeStatistics, next_timed
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.framing import request_parts
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

HEARTBEAT, VERSION = 12, 4
FETCH = 1
LISTENER = ListenerInfo(
    name="PLAINTEXT", security_protocol="PLAINTEXT", host="h", port=1, advertised_host="h", advertised_port=1
)


class Bench:
    """A dispatcher with one handler, and a clock that the test advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.work_seconds = 0.0
        self.result: Any = HeartbeatResponse()
        self.statistics = NodeStatistics()
        clock = SimpleNamespace(monotonic=lambda: self.now, now_ms=lambda: 1234)
        broker: Any = SimpleNamespace(world=SimpleNamespace(clock=clock), statistics=self.statistics)
        module = ModuleType("ottla.broker.apis.under_test")
        module.API = Api(request=HeartbeatRequest, response=HeartbeatResponse, handle=self._handle)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(HANDLERS, HEARTBEAT, HandlerSpec("under_test", 0, VERSION))
        self.dispatcher = Dispatcher(broker)
        self.connection = ConnectionContext(listener=LISTENER, client_host="h", client_port=2, connection_id="c-1")

    def _handle(self, *_: Any) -> Any:
        self.now += self.work_seconds
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def ask(self, client_id: str = "me") -> tuple[int, Any]:
        parts = request_parts(HEARTBEAT, VERSION, 9, client_id, HeartbeatRequest(group_id="g"))
        frame = memoryview(bytearray(b"".join(parts)))[4:]  # type: ignore[arg-type]
        return len(frame), self.dispatcher.dispatch(frame, self.connection, self)

    def response_ready(self) -> None:
        return

    @property
    def api(self) -> ApiStatistics:
        return self.statistics.apis[HEARTBEAT]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.fixture
def request_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    set_logger_level(REQUEST_LOGGER_NAME, "DEBUG")
    yield caplog
    set_logger_level(REQUEST_LOGGER_NAME, None)


def places(counts: list[int]) -> dict[int, int]:
    return {place: count for place, count in enumerate(counts) if count}


def test_a_request_that_is_answered_at_once(bench: Bench) -> None:
    bench.work_seconds = 0.0015
    size, answer = bench.ask()
    # 1500 microseconds are below 2^11 and not below 2^10.
    assert places(bench.api.handled_times) == places(bench.api.total_times()) == {11: 1}
    assert places(bench.api.request_sizes) == {size.bit_length(): 1}
    assert bench.api.response_bytes == len(b"".join(answer)) - 4
    assert places(bench.api.waited_times) == {}


def test_a_request_that_waits(bench: Bench) -> None:
    bench.work_seconds = 0.0015
    bench.result = Deferred()
    bench.ask()
    assert bench.api.parked == 1
    bench.now += 0.5
    bench.result.resolve(HeartbeatResponse(error_code=27))
    assert places(bench.api.handled_times) == {11: 1}
    assert places(bench.api.waited_times) == {19: 1}
    assert places(bench.api.total_times()) == {19: 1}
    assert bench.api.waited_seconds == pytest.approx(0.5)
    assert bench.api.late_seconds == pytest.approx(0.5015)
    assert bench.api.error_codes == {ErrorCode.REBALANCE_IN_PROGRESS: 1}


def test_errors_are_counted_by_code(bench: Bench) -> None:
    bench.result = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    bench.ask()
    bench.result = KafkaError(ErrorCode.NOT_COORDINATOR)
    bench.ask()
    bench.ask()
    assert bench.api.error_codes == {ErrorCode.UNKNOWN_MEMBER_ID: 1, ErrorCode.NOT_COORDINATOR: 2}
    assert (bench.api.requests, bench.api.errors) == (3, 2)


def test_fetches_of_followers_are_counted_apart(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("ottla.broker.apis.fetch_under_test")
    module.API = fetch.API.replaced(handle=lambda *_: FetchResponse())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(HANDLERS, FETCH, HandlerSpec("fetch_under_test", 4, 17))
    for version, request in (
        (12, FetchRequest(replica_id=-1)),
        (12, FetchRequest(replica_id=2)),
        (17, FetchRequest()),
        (17, FetchRequest(replica_state=ReplicaState(replica_id=2, replica_epoch=1))),
        (17, FetchRequest(replica_state=ReplicaState(replica_id=0, replica_epoch=1))),
    ):
        parts = request_parts(FETCH, version, 9, "me", request)
        frame = memoryview(bytearray(b"".join(parts)))[4:]  # type: ignore[arg-type]
        bench.dispatcher.dispatch(frame, bench.connection, bench)
    consumers, followers = bench.statistics.apis[FETCH], bench.statistics.api_for_brokers(FETCH)
    assert (consumers.requests, followers.requests) == (2, 3)
    together = consumers.plus(followers)
    assert together.requests == sum(together.handled_times) == sum(together.request_sizes) == 5
    assert together.response_bytes == consumers.response_bytes + followers.response_bytes


def test_the_request_log_is_silent_until_it_is_asked(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bench.ask()
    assert "request=" not in caplog.text
    assert logger_levels()[REQUEST_LOGGER_NAME] == "WARN"


def test_the_request_log_has_a_line_for_each_request(bench: Bench, request_log: pytest.LogCaptureFixture) -> None:
    bench.work_seconds = 0.25
    size, answer = bench.ask('a "client"\nof mine')
    (record,) = request_log.records
    line = record.getMessage()
    assert "\n" not in line
    assert line.startswith('request=Heartbeat version=4 correlation=9 client="a ?client??of mine" connection=c-1 ')
    assert f"request_bytes={size} response_bytes={len(b''.join(answer))} handled_ms=250.000 waited_ms=0.000" in line
    bench.result = Deferred()
    bench.ask()
    assert len(request_log.records) == 1, "not before it is answered"
    bench.now += 1
    bench.result.resolve(HeartbeatResponse())
    assert "waited_ms=1000.000" in request_log.records[1].getMessage()
    bench.result = KafkaError(ErrorCode.NOT_COORDINATOR)
    bench.ask()
    bench.result = Deferred.failed(KafkaError(ErrorCode.NOT_COORDINATOR))
    bench.ask()
    assert len(request_log.records) == 4, "a request that failed has a line too"


def test_of_many_requests_one_stands_for_several(bench: Bench) -> None:
    bench.work_seconds = 0.001
    for _ in range(20 * TIMED_ALL):
        bench.ask()
    api = bench.api
    assert api.requests == 20 * TIMED_ALL
    assert api.requests - 2 * TIMED_STRIDE < api.requests_timed == sum(api.handled_times) == sum(api.request_sizes)
    assert api.handled_seconds / api.requests_timed == pytest.approx(0.001)
    timed = 1
    while (following := next_timed(timed)) < 10 * TIMED_ALL:
        assert 1 <= following - timed <= 2 * TIMED_STRIDE
        timed = following
