"""Fetch sessions of `ottla.client` (KIP-227): only changes are sent, also after pauses and lost sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla.testing
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer import ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.consumer.fetch_session import FetchPlan, FetchSession
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

# Enough partitions for every broker to lead several.
COUNT = 12


@pytest.fixture(scope="module")
def settings() -> Iterator[ClientSettings]:
    with ottla.testing.cluster(nodes=3) as running:
        yield ClientSettings(bootstrap_servers=parse_bootstrap(running.bootstrap), api_timeout_ms=60_000)


class Fetches:
    """The fetch plans of consumers and the errors of their answers, since `forget`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plans: list[FetchPlan] = []
        self.errors: list[int] = []
        plan, accepts = FetchSession.plan, FetchSession.accepts

        def noted_plan(session: FetchSession, *arguments: Any) -> FetchPlan:
            self.plans.append(plan(session, *arguments))
            return self.plans[-1]

        def noted_answer(session: FetchSession, *, error_code: int, session_id: int) -> bool:
            self.errors.append(error_code)
            return accepts(session, error_code=error_code, session_id=session_id)

        monkeypatch.setattr(FetchSession, "plan", noted_plan)
        monkeypatch.setattr(FetchSession, "accepts", noted_answer)

    @property
    def is_quiet(self) -> bool:
        """True if a fetch in an established session listed no partition."""
        return any(plan.session_id and plan.epoch > 0 and not plan.topics and not plan.forgotten for plan in self.plans)

    @property
    def left_out(self) -> list[int]:
        return [number for plan in self.plans for topic in plan.forgotten for number in topic.partitions]

    def forget(self) -> None:
        self.plans.clear()
        self.errors.clear()


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> Fetches:
    return Fetches(monkeypatch)


class Line:
    """A consumer of all partitions of a new topic, and a producer that writes one record to every partition."""

    def __init__(self, producer: Producer, consumer: Consumer, topic: str) -> None:
        self._producer = producer
        self.consumer = consumer
        self.parts = [TopicPartition(topic, number) for number in range(COUNT)]

    async def write(self) -> None:
        for part in self.parts:
            await (await self._producer.send(part.topic, b"x", partition=part.partition))

    async def read(self, count: int) -> list[int]:
        """Reads exactly `count` records and returns their partitions."""
        records: list[ConsumedRecord] = []
        while len(records) < count:
            records += await self.consumer.poll(30_000)
        return sorted(record.partition for record in records)

    async def poll_until(self, holds: Callable[[], bool]) -> None:
        """Polls until the condition holds; no record may arrive meanwhile."""
        while not holds():
            assert await self.consumer.poll(50) == []


def run_line(settings: ClientSettings, topic: str, work: Callable[[Line], Any]) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(180):
            async with AdminClient(settings) as admin:
                result = (await admin.topics.create([NewTopic(name=topic, partitions=COUNT)]))[topic]
                assert not isinstance(result, KafkaError), result
            consumer_settings = ConsumerSettings(auto_offset_reset="earliest", fetch_max_wait_ms=50)
            async with Producer(settings) as producer, Consumer(settings, consumer_settings) as consumer:
                line = Line(producer, consumer, topic)
                await consumer.assign(line.parts)
                await line.write()
                assert await line.read(COUNT) == list(range(COUNT))
                await work(line)

    asyncio.run(scenario())


def test_what_does_not_change_is_not_told_again(settings: ClientSettings, fetches: Fetches) -> None:
    async def work(line: Line) -> None:
        fetches.forget()
        await line.poll_until(lambda: fetches.is_quiet)
        fetches.forget()
        line.consumer.pause(line.parts[1])
        await line.poll_until(lambda: fetches.left_out == [1])
        await line.write()
        assert await line.read(COUNT - 1) == [0, *range(2, COUNT)]
        line.consumer.resume(line.parts[1])
        assert await line.read(1) == [1]

    run_line(settings, "quiet", work)


@pytest.mark.parametrize(
    ("attribute", "code"),
    [("_id", ErrorCode.FETCH_SESSION_ID_NOT_FOUND), ("_epoch", ErrorCode.INVALID_FETCH_SESSION_EPOCH)],
    ids=["id", "epoch"],
)
def test_a_session_that_the_broker_does_not_have_is_opened_again(
    settings: ClientSettings, fetches: Fetches, attribute: str, code: ErrorCode
) -> None:
    async def work(line: Line) -> None:
        fetches.forget()
        for session in line.consumer._fetcher._sessions.values():
            setattr(session, attribute, getattr(session, attribute) + 7)
        await line.poll_until(lambda: code in fetches.errors)
        await line.write()
        assert await line.read(COUNT) == list(range(COUNT))
        fetches.forget()
        await line.poll_until(lambda: fetches.is_quiet)
        assert not any(fetches.errors)

    run_line(settings, f"anew{attribute.replace('_', '-')}", work)
