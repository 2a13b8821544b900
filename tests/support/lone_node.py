"""A whole node on virtual time: every answer has its cost, in CPU time and in turns of the loop."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import thread_time
from typing import Any, cast

from ottla.broker.authorization import Authorizer
from ottla.broker.broker import Broker
from ottla.broker.context import CloseConnection, ConnectionContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.pending import PendingResponse
from ottla.broker.route import Route
from ottla.model.ports import FileRegion
from ottla.sim.cluster import ClusterLayout, LogCollector, SimCluster
from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.process import ProcessWorkers
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts

__all__ = ["Answer", "LoneNode", "NoAnswer", "frame_of"]

ANSWER_SECONDS_MAX = 600
# The virtual time between two requests. The simulator limits the events of one moment.
BETWEEN_REQUESTS_SECONDS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer with its cost. `body` is None if the connection was closed instead."""

    body: bytes | None
    close_reason: str | None
    cpu_seconds: float
    # The longest time during which the loop served no other request.
    blocked_seconds: float
    turns: int


class NoAnswer(AssertionError):
    """The node has not answered in time."""


class LoneNode:
    """A broker and controller in a single process, without other load; every run is the same."""

    def __init__(self, **settings: str) -> None:
        self._kernel = Kernel(1)
        layout = ClusterLayout(nodes=1, controllers=1, settings=settings)
        self._cluster = SimCluster(self._kernel, layout)
        self._cluster.start()
        assert self._run(lambda: self._cluster.all_serve), "the node does not start"
        (self._node,) = self._cluster.nodes.values()
        self._connect()

    def _connect(self) -> None:
        broker = self._node.broker
        assert broker is not None
        self.broker: Broker = broker
        self._dispatchers = {False: Dispatcher(broker), True: cast("Dispatcher", broker.controller_dispatcher)}
        listeners = sorted(broker.listeners.values(), key=lambda listener: listener.is_controller)
        self._connections = {
            listener.is_controller: ConnectionContext(
                listener=listener,
                client_host="10.0.0.9",
                client_port=1,
                authorizer=broker.authorizer,
                quota=broker.quota,
            )
            for listener in listeners
        }

    def authorize_with(self, authorizer: Authorizer) -> None:
        """Sets the authorizer of later requests."""
        for connection in self._connections.values():
            connection.authorizer = authorizer

    @property
    def findings(self) -> list[str]:
        return [str(finding) for finding in self._cluster.findings]

    def ask(self, api_key: int, version: int, request: Any, *, at_controller: bool = False) -> Any:
        """The response, decoded."""
        answer = self.send(frame_of(api_key, version, request), at_controller=at_controller)
        assert answer.body is not None, answer.close_reason
        return decode(API_SPECS[ApiKey(api_key)].response_class, memoryview(answer.body), version)[0]

    def log_collector(self) -> LogCollector:
        """A log handler that turns tracebacks into findings."""
        return LogCollector(self._cluster)

    def run_for(self, seconds: float) -> None:
        """Advances the virtual time."""
        self._run(lambda: False, seconds)

    def restart(self) -> None:
        """Kills the node, and waits until it serves again."""
        self._node.kill()
        self._cluster.restart(self._node)
        assert self._run(lambda: self._cluster.all_serve), f"the node does not start: {self.findings}"
        self._connect()

    def send_at_once(self, frames: list[bytes]) -> int:
        """Dispatches every frame on a separate connection. Returns the turns until the first answer is ready."""
        assert self._node.process is not None
        pending: list[Any] = []
        for frame in frames:
            buffer = memoryview(bytearray(frame))
            arguments = (buffer, self._connections[False], self)
            self._node.process.run(
                lambda *task_arguments: pending.append(self._dispatchers[False].dispatch(*task_arguments)), arguments
            )
        turns = first_turn = 0

        def are_ready() -> bool:
            nonlocal turns, first_turn
            turns += 1
            if not first_turn and any(answer.ready for answer in pending):
                first_turn = turns
            return all(answer.ready for answer in pending)

        assert self._run(are_ready), "no answer"
        return first_turn

    def send(
        self,
        frame: bytes,
        *,
        at_controller: bool = False,
        seconds_max: float = ANSWER_SECONDS_MAX,
        gone_after_turns: int | None = None,
    ) -> Answer:
        """Dispatches the frame and runs the node until the answer is ready. Raises NoAnswer.

        The client closes its connection after `gone_after_turns` turns, if given.
        """
        assert self._node.process is not None
        self.run_for(BETWEEN_REQUESTS_SECONDS)
        outcome: list[Any] = []
        buffer = memoryview(bytearray(frame))
        connection = self._connections[at_controller]

        def dispatch() -> None:
            try:
                answer = self._dispatchers[at_controller].dispatch(buffer, connection, self)
            except CloseConnection as order:
                answer = PendingResponse(None, None, None, None)
                answer.ready, answer.close_reason = True, str(order)
            outcome.append(answer)

        # The time of a garbage collection depends on the number of objects that the test holds.
        gc.disable()
        turns = _Turns()
        worked = _TimedWorkers()
        try:
            turns.begin()
            self._node.process.run(dispatch, ())
            turns.end(worked)
            assert outcome, self.findings

            def is_ready() -> bool:
                turns.end(worked)
                connection.is_gone = gone_after_turns is not None and turns.count > gone_after_turns
                return not isinstance(outcome[0], PendingResponse) or outcome[0].ready

            if not is_ready() and not self._run(is_ready, seconds_max):
                raise NoAnswer
        finally:
            worked.stop()
            gc.enable()
            connection.is_gone = False
        answer = outcome[0]
        parts = answer.parts if isinstance(answer, PendingResponse) else answer
        return Answer(
            body=None if parts is None else b"".join(map(_bytes_of, parts))[_header_size(frame) :],
            close_reason=answer.close_reason if isinstance(answer, PendingResponse) else None,
            cpu_seconds=turns.seconds,
            blocked_seconds=turns.longest,
            turns=turns.count,
        )

    @contextmanager
    def with_route(self, route: Route, *, at_controller: bool = False) -> Iterator[None]:
        """Uses this route for its API and version."""
        routes = self._dispatchers[at_controller]._routes
        key = route.api_key << 16 | route.version
        usual = routes.get(key)
        routes[key] = route
        try:
            yield
        finally:
            del routes[key]
            if usual is not None:
                routes[key] = usual

    def response_ready(self) -> None:
        """The answer's notification of its connection; `send` looks after every turn."""

    def _run(self, is_done: Callable[[], bool], seconds: float = ANSWER_SECONDS_MAX) -> bool:
        return self._kernel.run_until(self._kernel.now_us + round(seconds * SECOND_US), is_done)


class _Turns:
    """The CPU time of a loop's turns, without the time of workers, which run on separate threads on a real node."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.longest = 0.0
        self.count = 0
        self._started = 0.0

    def begin(self) -> None:
        self._started = thread_time()

    def end(self, worked: _TimedWorkers) -> None:
        now = thread_time()
        turn = now - self._started - worked.take()
        self.count += 1
        self.seconds += turn
        self.longest = max(self.longest, turn)
        self._started = thread_time()


class _TimedWorkers:
    def __init__(self) -> None:
        self._seconds = 0.0
        self._work = work = ProcessWorkers._work

        def timed(workers: ProcessWorkers, *arguments: Any) -> None:
            started = thread_time()
            work(workers, *arguments)
            self._seconds += thread_time() - started

        ProcessWorkers._work = timed  # type: ignore[method-assign,assignment]

    def take(self) -> float:
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def stop(self) -> None:
        ProcessWorkers._work = self._work  # type: ignore[method-assign]


def frame_of(api_key: int, version: int, request: Any) -> bytes:
    """The encoded request without its size."""
    return b"".join(cast("list[bytes]", request_parts(api_key, version, 7, "client", request)))[4:]


def _header_size(frame: bytes) -> int:
    """The number of bytes of the response's header and size."""
    api_key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    return 9 if API_SPECS[ApiKey(api_key)].response_header_version(version) else 8


def _bytes_of(part: Any) -> bytes:
    return part.read() if isinstance(part, FileRegion) else bytes(part)
