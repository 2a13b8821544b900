"""Draws applications and the settings of their clients."""

from __future__ import annotations

from random import Random

from ottla.client.consumer import ConsumerSettings
from ottla.client.producer import ProducerSettings
from ottla.sim.history import Copies
from ottla.sim.workloads.application_consumers import ApplicationMember, ApplicationReader
from ottla.sim.workloads.application_copies import ApplicationCopies
from ottla.sim.workloads.application_producers import CODECS, ApplicationProducer, ApplicationTransactions
from ottla.sim.workloads.applications import Application
from ottla.sim.workloads.workload import Stage

__all__ = ["make_applications"]

FIRST_KINDS = ("producer", "reader", "member", "transactions", "copies")
GROUPS_MAX = 2
ASSIGNORS = (("range",), ("roundrobin",), ("sticky",), ("cooperative-sticky",), ("range", "cooperative-sticky"))


def make_applications(stage: Stage, random: Random, count: int) -> list[Application]:
    """Makes `count` applications. The kinds of the first applications are fixed, so that every run can compare them."""
    if not count:
        return []
    groups = [_draw_group(random, number) for number in range(GROUPS_MAX)]
    kinds = [*FIRST_KINDS, *random.choices(("producer", "member", "transactions"), k=count)]
    applications: list[Application] = []
    for number, kind in enumerate(kinds[:count]):
        name = f"application-{number}-{kind}"
        is_killed = random.random() < 0.4
        if kind == "producer":
            applications.append(_draw_producer(stage, random, name, is_killed=is_killed))
        elif kind == "transactions":
            applications.append(
                ApplicationTransactions(stage, name, stage.partitions, pause_seconds=0.2, is_killed=is_killed)
            )
        elif kind == "copies":
            if len(stage.partitions) > 1:
                source, target = random.sample(list(stage.partitions), 2)
                copies = Copies(name=name, source=source, target=target)
                applications.append(ApplicationCopies(stage, copies, is_killed=is_killed))
        elif kind == "reader":
            applications.append(_draw_reader(stage, random, name))
        else:
            settings = random.choice(groups)
            applications.append(
                ApplicationMember(stage, name, stage.partitions, settings=settings, is_killed=is_killed)
            )
    return applications


def _draw_producer(stage: Stage, random: Random, name: str, *, is_killed: bool) -> ApplicationProducer:
    acks = random.choice((-1, -1, -1, 1))
    request_timeout_ms = random.choice((2_000, 5_000))
    settings = ProducerSettings(
        acks=acks,
        idempotent=None if random.random() < 0.8 else False,
        linger_ms=random.choice((0, 5, 50)),
        batch_size=random.choice((200, 2_000, 16_384)),
        compression=random.choice(CODECS),
        in_flight_max=random.choice((1, 5)),
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=random.choice((6_000, 30_000)),
        max_block_ms=10_000,
        buffer_bytes=random.choice((5_000, 1_000_000)),
    )
    return ApplicationProducer(
        stage,
        name,
        stage.partitions,
        settings=settings,
        pause_seconds=random.choice((0.05, 0.2, 0.5)),
        records_max=random.choice((1, 4, 12)),
        is_killed=is_killed,
    )


def _draw_reader(stage: Stage, random: Random, name: str) -> ApplicationReader:
    settings = ConsumerSettings(
        auto_offset_reset="earliest",
        read_committed=random.random() < 0.5,
        fetch_max_wait_ms=random.choice((10, 500)),
        partition_fetch_bytes=random.choice((300, 1024 * 1024)),
    )
    return ApplicationReader(stage, name, stage.partitions, settings=settings)


def _draw_group(random: Random, number: int) -> ConsumerSettings:
    return ConsumerSettings(
        group_id=f"application-group-{number}",
        group_protocol=random.choice(("classic", "consumer")),
        assignors=random.choice(ASSIGNORS),
        auto_offset_reset="earliest",
        auto_commit=random.random() < 0.5,
        auto_commit_interval_ms=500,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        max_poll_interval_ms=10_000,
        read_committed=True,
    )
