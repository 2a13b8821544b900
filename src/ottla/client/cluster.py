"""The connection pool of a client: a cluster, its nodes, its metadata, and the way to leaders and coordinators.

Every client has a `Cluster`. It keeps one connection for each node and purpose, the metadata of the requested topics,
and the known coordinators. Requests that wait long, such as Fetch, have a purpose of their own, so that quick requests
do not wait behind them. `ask_*` retry retriable errors with growing pauses until the deadline of the call, and then
raise the last error.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from ottla.client.connection import Connection, Connector, connect_plaintext, open_connection
from ottla.client.errors import ClientClosed, ClusterUnreachable, ConnectionLost, TimedOut, check
from ottla.client.measures import RequestMeasures
from ottla.client.metadata import MetadataCache, TopicInfo
from ottla.client.reconnects import Reconnects
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.message import Message
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.peers import Endpoint

__all__ = ["Cluster", "CoordinatorKind", "calls_within"]

T = TypeVar("T")

# FindCoordinator's key types.
CoordinatorKind = int
GROUP: CoordinatorKind = 0
TRANSACTION: CoordinatorKind = 1

# DescribeCluster's type of endpoint.
CONTROLLERS = 2

# The number of cached coordinators. A client of more groups looks the least recent ones up again.
COORDINATORS_MAX = 10_000

# A cluster may take this long to create a topic automatically.
CREATION_SECONDS_MAX = 5.0
# A broker that has just started may have outdated metadata.
_CREATED_SECONDS_MAX = 30.0

_COORDINATOR_MOVED = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
}


# The time-out that `calls_within` sets for calls without a time-out of their own.
_timeout_ms: ContextVar[int | None] = ContextVar("time-out of calls", default=None)


@contextmanager
def calls_within(timeout_ms: int) -> Iterator[None]:
    """Calls inside of the block have this time-out, retries included."""
    token = _timeout_ms.set(max(timeout_ms, 1))
    try:
        yield
    finally:
        _timeout_ms.reset(token)


class Cluster:
    """The first request opens connections; `close` closes all of them."""

    GROUP = GROUP
    TRANSACTION = TRANSACTION

    def __init__(
        self,
        settings: ClientSettings,
        *,
        connector: Connector | None = None,
        generator: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.metadata = MetadataCache()
        self.measures = RequestMeasures()
        self._connector = connector or _connector_of(settings)
        self._connections: dict[tuple[Endpoint, str], asyncio.Task[Connection]] = {}
        self._reconnects = Reconnects(settings)
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._closed = False
        self._closing = False
        self._calls = 0
        # The error for which the latest call is repeated: calls with a time-out of their own report it.
        self.last_failure: Exception | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        # The source of randomness of this client; in simulations its seed determines everything.
        self.random = generator or random.Random()
        # Called with every new connection.
        self.on_connected: Callable[[Connection], object] | None = None

    async def drain(self, timeout_ms: int | None = None) -> None:
        """Refuses new calls and waits for those in progress, at most until the time-out."""
        self._closing = True
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._idle.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Closes every connection; calls in progress fail with ClientClosed."""
        self._closed = True
        tasks = list(self._connections.values())
        self._connections.clear()
        for task in tasks:
            if not task.done():
                task.cancel()
            elif task.exception() is None:
                task.result().close("the client was closed")
        await asyncio.gather(*tasks, return_exceptions=True)
        opened = [task.result() for task in tasks if not task.cancelled() and task.exception() is None]
        await asyncio.gather(*(connection.wait_ended() for connection in opened))

    # Connections.

    async def connection(self, endpoint: Endpoint, purpose: str = "") -> Connection:
        """The connection to an address, opened if necessary. Raises ConnectionLost."""
        if self._closed:
            raise ClientClosed("The client is closed.")
        key = (endpoint, purpose)
        task = self._connections.get(key)
        if task is not None and task.done() and (task.exception() is not None or self._is_stale(task.result())):
            task = None
        if task is None:
            task = self._connections[key] = asyncio.ensure_future(self._open(endpoint))
        try:
            # Shielded, because several callers may wait for the connection and one of them may be cancelled.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise ClientClosed("The client was closed.") from None
            raise

    async def _open(self, endpoint: Endpoint) -> Connection:
        settings, reconnects = self.settings, self._reconnects
        pause = reconnects.pause_seconds(endpoint)
        if pause:
            await asyncio.sleep(pause)
        try:
            connection = await open_connection(
                endpoint,
                client_id=settings.client_id,
                connector=self._connector,
                timeout_ms=reconnects.timeout_ms(endpoint),
                response_bytes_max=settings.response_bytes_max,
                measures=self.measures,
                login=settings.login,
            )
        except ConnectionLost:
            reconnects.on_failure(endpoint)
            raise
        reconnects.on_success(endpoint)
        connection.set_buffers(send_bytes=settings.send_buffer_bytes, receive_bytes=settings.receive_buffer_bytes)
        if self.on_connected is not None:
            self.on_connected(connection)
        return connection

    def _is_stale(self, connection: Connection) -> bool:
        """True if the connection is closed, or was idle for so long that its broker is about to close it."""
        limit_ms = self.settings.idle_connection_ms_max
        if not connection.closed and limit_ms >= 0 and connection.idle_seconds * 1000 > limit_ms:
            connection.close("the connection was idle")
        return connection.closed

    def is_connected(self, node_id: int, purpose: str = "") -> bool:
        """True if `node_connection` returns at once."""
        broker = self.metadata.brokers.get(node_id)
        task = None if broker is None else self._connections.get((Endpoint(broker.host, broker.port), purpose))
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return False
        return not self._is_stale(task.result())

    async def node_connection(self, node_id: int, purpose: str = "") -> Connection:
        """The connection to a node. Raises ConnectionLost, also if the node id is unknown."""
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            await self.refresh([])
            broker = self.metadata.brokers.get(node_id)
            if broker is None:
                raise ConnectionLost(f"broker {node_id} is not in the cluster's metadata")
        return await self.connection(Endpoint(broker.host, broker.port), purpose)

    async def any_connection(self) -> Connection:
        """A connection to any known node. Raises ClusterUnreachable."""
        known = [Endpoint(broker.host, broker.port) for broker in self.metadata.brokers.values()]
        for key, task in self._connections.items():
            if key[1] == "" and task.done() and not task.cancelled() and task.exception() is None:
                connection = task.result()
                if not self._is_stale(connection) and (not known or key[0] in known):
                    return connection
        self.random.shuffle(known)
        reasons = []
        bootstrap = self.settings.bootstrap_servers if self._asks_bootstrap_servers(known) else ()
        # Nodes that have just failed come last.
        for endpoint in sorted(dict.fromkeys([*known, *bootstrap]), key=self._reconnects.pause_seconds):
            try:
                return await self.connection(endpoint)
            except ConnectionLost as error:
                reasons.append(str(error))
        raise ClusterUnreachable(
            f"Cannot reach the cluster ({'; '.join(reasons[:3])}). Is it running, and is the address right?"
        )

    def _asks_bootstrap_servers(self, known: list[Endpoint]) -> bool:
        return not known or self.settings.metadata_recovery == "rebootstrap"

    # Metadata.

    async def refresh(
        self, topics: Sequence[str] | None, *, create: bool = False, deadline: float | None = None
    ) -> MetadataCache:
        """Requests the metadata of the brokers and of these topics, or of all topics (None)."""
        if self.settings.are_controllers:
            await self._refresh_controllers(deadline)
            return self.metadata
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        response: MetadataResponse = await self.ask_any(request, deadline=deadline)
        self.metadata.update(response, all_topics=topics is None)
        return self.metadata

    async def _refresh_controllers(self, deadline: float | None) -> None:
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        response: DescribeClusterResponse = await self.ask_any(request, deadline=deadline)
        check(response.error_code, response.error_message)
        self.metadata.update_controllers(response)

    async def topic(self, name: str, *, create: bool = False) -> TopicInfo:
        """The metadata of a topic, with the leaders that there are. Raises KafkaError if the topic does not exist."""
        info = self.metadata.topics.get(name)
        if info is not None and info.error is None:
            return info
        return await self.fresh_topic(name, create=create)

    async def fresh_topic(self, name: str, *, create: bool = False, is_coming: bool = False) -> TopicInfo:
        """`is_coming` waits for a topic that was just created: not every broker knows it at once."""

        async def attempt() -> TopicInfo:
            await self.refresh([name], create=create)
            info = self.metadata.topics.get(name)
            if info is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r}.")
            if info.error is not None:
                unknown = info.error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                why = f"There is no topic {name!r}." if unknown else f"Topic {name!r}: {info.error.message}"
                raise KafkaError(info.error.code, why)
            return info

        now = asyncio.get_running_loop().time
        patience = now() + (_CREATED_SECONDS_MAX if is_coming else CREATION_SECONDS_MAX if create else 0.0)

        def again(error: KafkaError) -> bool:
            # A topic that is being created appears soon; a missing topic that is not being created is an error.
            return error.code.retriable and (error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or now() < patience)

        return await self.retry(attempt, again=again)

    # Requests.

    def deadline(self, timeout_ms: int | None = None) -> float:
        """The deadline of a call that begins now, by the event loop's clock."""
        if timeout_ms is None:
            timeout_ms = _timeout_ms.get() or self.settings.api_timeout_ms
        return asyncio.get_running_loop().time() + timeout_ms / 1000

    async def retry(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        deadline: float | None = None,
        again: Callable[[KafkaError], bool] | None = None,
    ) -> T:
        """Retries after retriable errors and lost connections, until the deadline."""
        if self._closing and not self._calls:
            raise ClientClosed("The client is closed.")
        self._calls += 1
        self._idle.clear()
        try:
            return await self._repeat(attempt, deadline=deadline, again=again)
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def _repeat(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        deadline: float | None,
        again: Callable[[KafkaError], bool] | None,
    ) -> T:
        end = self.deadline() if deadline is None else deadline
        backoff_ms = self.settings.retry_backoff_ms
        now = asyncio.get_running_loop().time
        start = now()
        attempts = 0
        while True:
            attempts += 1
            try:
                async with asyncio.timeout_at(end):
                    return await attempt()
            except KafkaError as error:
                if not (error.code.retriable if again is None else again(error)):
                    raise
                last: Exception = error
            except (ConnectionLost, ClusterUnreachable) as error:
                if self._closed:
                    raise ClientClosed("The client was closed before the cluster answered.") from None
                if not self.metadata.brokers and now() - start > self.settings.bootstrap_timeout_ms / 1000:
                    raise
                last = error
            except TimeoutError:
                where = ", ".join(map(str, self.settings.bootstrap_servers))
                raise TimedOut(
                    f"The cluster at {where} did not answer in time. Look at its health, or allow more with --timeout."
                ) from None
            self.last_failure = last
            pause = backoff_ms / 1000 * self.random.uniform(0.8, 1.2)
            if now() + pause >= end or attempts > self.settings.retries:
                raise last
            await asyncio.sleep(pause)
            backoff_ms = min(backoff_ms * 2, self.settings.retry_backoff_max_ms)

    async def ask_any(self, request: Message, *, deadline: float | None = None, version_max: int = 32767) -> Any:
        """The response of any node. The caller checks its error codes."""

        async def attempt() -> Any:
            connection = await self.any_connection()
            return await connection.ask(request, timeout_ms=self.settings.request_timeout_ms, version_max=version_max)

        return await self.retry(attempt, deadline=deadline)

    async def ask_node(self, node_id: int, request: Message, *, purpose: str = "", version_max: int = 32767) -> Any:
        """The response of a node, without retries."""
        connection = await self.node_connection(node_id, purpose)
        return await connection.ask(request, timeout_ms=self.settings.request_timeout_ms, version_max=version_max)

    async def ask_broker(self, node_id: int, request: Message) -> Any:
        """The response of a broker. Raises BROKER_NOT_AVAILABLE as soon as metadata does not have the broker."""

        async def attempt() -> Any:
            try:
                response = await self.ask_node(node_id, request)
            except ConnectionLost:
                if node_id not in await self.all_brokers():
                    raise KafkaError(
                        ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {node_id} is not in the cluster's metadata."
                    ) from None
                raise
            code = getattr(response, "error_code", 0)
            if code and ErrorCode(code).retriable:
                check(code)
            return response

        return await self.retry(attempt)

    async def ask_brokers(self, request: Message) -> dict[int, Any]:
        """The responses of all brokers. If a broker leaves, all are asked again, because others take over its work."""
        while True:
            wanted = await self.all_brokers()
            answers = await asyncio.gather(
                *[self.ask_broker(node_id, request) for node_id in wanted], return_exceptions=True
            )
            failures = [answer for answer in answers if isinstance(answer, BaseException)]
            if not failures:
                return dict(zip(wanted, answers, strict=True))
            for failure in failures:
                if not isinstance(failure, KafkaError) or failure.code != ErrorCode.BROKER_NOT_AVAILABLE:
                    raise failure

    async def ask_controller(
        self, request: Message, codes: Callable[[Any], Iterable[int]] = lambda response: (response.error_code,)
    ) -> Any:
        """The controller's response, through the broker that metadata names as controller (any broker, in KRaft).

        `codes` returns the error codes of a response. The request is retried while a code means that the controller
        has moved or is busy.
        """

        async def attempt() -> Any:
            if self.metadata.controller_id not in self.metadata.brokers:
                await self.refresh([])
            node_id = self.metadata.controller_id
            try:
                if node_id in self.metadata.brokers:
                    response = await self.ask_node(node_id, request)
                else:
                    response = await (await self.any_connection()).ask(
                        request, timeout_ms=self.settings.request_timeout_ms
                    )
            except ConnectionLost:
                self.metadata.controller_id = -1
                raise
            for code in codes(response):
                if code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                    self.metadata.controller_id = -1
                    check(code)
            return response

        return await self.retry(attempt)

    async def ask_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Message | Callable[[], Message],
        codes: Callable[[Any], Iterable[int]] = lambda response: (response.error_code,),
        *,
        deadline: float | None = None,
        version_max: int = 32767,
        purpose: str = "",
        timeout_ms: int | None = None,
        once: bool = False,
    ) -> Any:
        """The response of the coordinator of a group or transactional id, which is looked up again when it has moved.

        A request that depends on the previous attempt is a function, called for every attempt. `once`: no retries.
        """

        async def attempt() -> Any:
            node_id = await self.coordinator(kind, key)
            try:
                connection = await self.node_connection(node_id, purpose)
                response = await connection.ask(
                    request() if callable(request) else request,
                    timeout_ms=timeout_ms or self.settings.request_timeout_ms,
                    version_max=version_max,
                )
            except ConnectionLost:
                self.forget_coordinator(kind, key)
                raise
            for code in codes(response):
                if code in _COORDINATOR_MOVED:
                    self.forget_coordinator(kind, key)
                if code in _COORDINATOR_MOVED or code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    check(code)
            return response

        return await attempt() if once else await self.retry(attempt, deadline=deadline)

    async def coordinator(self, kind: CoordinatorKind, key: str) -> int:
        """The node id of a coordinator. Raises a retriable KafkaError if there is none."""
        node_id = self._coordinators.get((kind, key))
        if node_id is not None and node_id in self.metadata.brokers:
            return node_id
        connection = await self.any_connection()
        if connection.version_of(API_SPECS[ApiKey.FIND_COORDINATOR]) < 4:
            request = FindCoordinatorRequest(key=key, key_type=kind)
        else:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        response: FindCoordinatorResponse = await connection.ask(request, timeout_ms=self.settings.request_timeout_ms)
        if response.coordinators:
            coordinator = response.coordinators[0]
            check(coordinator.error_code, coordinator.error_message)
            node_id = coordinator.node_id
        else:
            check(response.error_code, response.error_message)
            node_id = response.node_id
        if node_id not in self.metadata.brokers:
            await self.refresh([])
        while len(self._coordinators) >= COORDINATORS_MAX:
            # A dictionary keeps its order, so the first entry is the oldest.
            del self._coordinators[next(iter(self._coordinators))]
        self._coordinators[kind, key] = node_id
        return node_id

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def all_brokers(self) -> list[int]:
        """The ids of all live brokers, from fresh metadata."""
        await self.refresh([])
        return sorted(self.metadata.brokers)


def _connector_of(settings: ClientSettings) -> Connector:
    if settings.tls is None:
        return connect_plaintext
    # Imported with the first encrypted connection: most clients have none.
    from ottla.client.encryption import tls_connector

    return tls_connector(settings.tls)
