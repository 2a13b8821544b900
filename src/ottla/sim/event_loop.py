"""An asyncio event loop on virtual time and the simulated network: `ottla.client` runs on it without a change.

The loop has what the client uses: callbacks, timers, tasks, futures and connections. Every callback is an event of the
kernel, in the process of the client, so that the client can be killed like a node.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import Context
from math import ceil
from typing import Any, TypeVar

from ottla.sim.kernel import SECOND_US, Event, TimeStandsStill
from ottla.sim.network import Network, Socket
from ottla.sim.process import Process

__all__ = ["SimEventLoop", "SimTransport"]

T = TypeVar("T")

# A transport with more unsent bytes than the first asks its protocol to pause, and to resume at the second.
WRITE_PAUSE_BYTES = 64 * 1024
WRITE_RESUME_BYTES = 16 * 1024

# The time that a callback takes. Without it, code that waits for less than the clock can show would wait for ever.
CALLBACK_US = 1

# Callbacks in a tenth of a second. A client with more of them is busy with nothing.
WINDOW_US = SECOND_US // 10
CALLBACKS_MAX = 40_000


class _Timer(asyncio.TimerHandle):
    """A timer with its event of the kernel."""

    event: Event | None = None


class SimEventLoop(asyncio.AbstractEventLoop):
    """The event loop of one process on one host."""

    def __init__(
        self,
        network: Network,
        process: Process,
        *,
        host: str,
        on_defect: Callable[[str, BaseException], object],
    ) -> None:
        self.network = network
        self.process = process
        self.host = host
        self._on_defect = on_defect
        # In the order of their creation. Tasks that end are removed.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._window = self._callbacks = 0

    def abandon(self) -> None:
        """Closes the coroutines of a process that has ended, where they are suspended."""
        assert not self.process.is_alive
        with self._running():
            for task in list(self._tasks):
                # asyncio would otherwise report a task that no code awaits any more.
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                with contextlib.suppress(BaseException):
                    # Whatever a coroutine does at its end, its process cannot do it.
                    coroutine.close()
        self._tasks.clear()

    # -- time and callbacks ----------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.process.kernel.now_us / SECOND_US

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, arguments, self, context)
        self.process.plan(CALLBACK_US, self._run_handle, handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *arguments, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, arguments, self, context)
        # Rounded up: the clock must not be before the time of the timer when it fires.
        delay_us = ceil(when * SECOND_US) - self.process.kernel.now_us
        timer.event = self.process.plan(delay_us, self._run_handle, timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by `TimerHandle.cancel`."""
        assert isinstance(handle, _Timer)
        if handle.event is not None:
            handle.event.cancel()

    def _run_handle(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            self._count_callback()
            with self._running():
                handle._run()

    def _count_callback(self) -> None:
        window = self.process.kernel.now_us // WINDOW_US
        if window != self._window:
            self._window, self._callbacks = window, 0
        self._callbacks += 1
        if self._callbacks == CALLBACKS_MAX:
            raise TimeStandsStill(f"{self.process.name} ran {CALLBACKS_MAX} callbacks in a tenth of a second")

    @contextlib.contextmanager
    def _running(self) -> Any:
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(None)

    # -- tasks and futures -----------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coroutine, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.process.is_alive

    def is_closed(self) -> bool:
        return not self.process.is_alive

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Reports a failed callback, or the failure of a task that was never retrieved."""
        error = context.get("exception")
        if self.process.is_alive and isinstance(error, BaseException):
            self._on_defect(f"{self.process.name}: {context.get('message')}", error)

    # -- connections -----------------------------------------------------------------------------------------------

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        connected: asyncio.Future[None] = self.create_future()

        def on_connected(_: Socket) -> None:
            if not connected.done():
                connected.set_result(None)

        def on_refused(reason: str) -> None:
            if not connected.done():
                connected.set_exception(ConnectionRefusedError(reason))

        socket = self.network.connect(
            process=self.process,
            source=self.host,
            target=host,
            port=port,
            on_connected=on_connected,
            on_refused=on_refused,
        )
        try:
            await connected
        except BaseException:
            socket.close()
            raise
        protocol = protocol_factory()
        transport = SimTransport(self, socket, protocol)
        return transport, protocol


class SimTransport(asyncio.Transport):
    """A connected socket of the simulated network, with a buffer for bytes that have not left yet."""

    def __init__(self, loop: SimEventLoop, socket: Socket, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self._loop = loop
        self._socket = socket
        self._protocol = protocol
        self._unsent = bytearray()
        self._is_paused = False
        self._is_closing = False
        self._has_ended = False
        protocol.connection_made(self)
        socket.take(
            on_readable=self._in_loop(self._on_readable),
            on_writable=self._in_loop(self._flush),
            on_closed=lambda reason: self._in_loop(self._end)(ConnectionResetError(reason)),
        )

    def _in_loop(self, callback: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: Any) -> None:
            with self._loop._running():
                callback(*arguments)

        return run

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._unsent += data
            self._flush()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        """Sends the remaining bytes, then ends."""
        self._is_closing = True
        if not self._unsent:
            self._loop.call_soon(self._end, None)

    def abort(self) -> None:
        self._is_closing = True
        self._unsent.clear()
        self._loop.call_soon(self._end, None)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002
        return default

    def _on_readable(self) -> None:
        if self._has_ended or self._is_closing:
            # The bytes are discarded, because unread bytes would be announced for ever.
            self._socket.recv_into(memoryview(bytearray(WRITE_PAUSE_BYTES)))
            return
        count = self._socket.recv_into(memoryview(self._protocol.get_buffer(-1)))
        self._protocol.buffer_updated(count)

    def _flush(self) -> None:
        if self._has_ended:
            return
        try:
            while self._unsent:
                sent = self._socket.send(bytes(self._unsent))
                del self._unsent[:sent]
        except BlockingIOError:
            pass
        except OSError as error:
            self._unsent.clear()
            self._loop.call_soon(self._end, error)
            return
        self._tell_protocol()
        if self._is_closing and not self._unsent:
            self._loop.call_soon(self._end, None)

    def _tell_protocol(self) -> None:
        if not self._is_paused and len(self._unsent) > WRITE_PAUSE_BYTES:
            self._is_paused = True
            self._protocol.pause_writing()
        elif self._is_paused and len(self._unsent) <= WRITE_RESUME_BYTES:
            self._is_paused = False
            self._protocol.resume_writing()

    def _end(self, error: Exception | None) -> None:
        if self._has_ended:
            return
        self._has_ended = self._is_closing = True
        self._socket.close()
        self._protocol.connection_lost(error)
