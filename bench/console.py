"""Pages of the console on a large cluster: `python -m bench.console --topics 10000 --partitions 4 --groups 2000`.

A real node gets the topics, and groups with committed offsets; then every page is asked for several times, as a browser
would do. The table shows the first answer, the median and the slowest of the others, in milliseconds. Nothing is
asserted: machines differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import ottla.testing
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["PAGES", "main"]

# A page may take this long.
GOAL_MS = 300.0
# What an open live page may cost the node, of a core.
GOAL_SHARE = 0.01
ROUNDS = 3
PAGES = (
    "/api/session",
    "/api/overview",
    "/api/topics",
    "/api/topics?page=150&sort=-partitions",
    "/api/topics?filter=topic-09",
    "/api/topics?sort=-bytes",
    "/api/topics/topic-00042",
    "/api/topics/topic-00042/messages",
    "/api/groups",
    "/api/groups?page=30&filter=group-1",
    "/api/groups/group-0042",
    "/api/brokers",
    "/api/brokers/1",
    "/api/quorum",
    "/api/transactions",
    "/api/reassignments",
)
TOPICS_AT_ONCE = 200
GROUPS_AT_ONCE = 50


async def fill(bootstrap: str, *, topics: int, partitions: int, groups: int) -> None:
    settings = ClientSettings(
        bootstrap_servers=parse_bootstrap(bootstrap), api_timeout_ms=300_000, request_timeout_ms=120_000
    )
    async with AdminClient(settings) as admin:
        names = [f"topic-{number:05}" for number in range(topics)]
        for begin in range(0, topics, TOPICS_AT_ONCE):
            new_topics = [NewTopic(name=name, partitions=partitions) for name in names[begin : begin + TOPICS_AT_ONCE]]
            for creation in (await admin.topics.create(new_topics)).values():
                if isinstance(creation, KafkaError):
                    raise creation
        for begin in range(0, groups, GROUPS_AT_ONCE):
            await asyncio.gather(
                *[
                    admin.groups.alter_offsets(f"group-{number:04}", {TopicPartition(names[number % topics], 0): 0})
                    for number in range(begin, min(begin + GROUPS_AT_ONCE, groups))
                ]
            )


@contextmanager
def console(bootstrap: str) -> Iterator[str]:
    command = [sys.executable, "-m", "ottla.cli.main", "console", "-b", bootstrap, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[1]
    finally:
        process.kill()
        process.communicate()


def asked_ms(url: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as answer:
        json.load(answer)
    return (time.perf_counter() - began) * 1000


def live_cost(url: str, node_pid: int, seconds: float) -> tuple[float, float]:
    """The share of a core that the node needs, without and with an open live page: medians of rounds by turns.

    A node has work of its own at times, and a live page reads the whole metadata now and then. So both are long.
    """
    import psutil

    node = psutil.Process(node_pid)

    def share(until: float) -> float:
        began, before = time.perf_counter(), sum(node.cpu_times()[:2])
        while time.perf_counter() < began + until:
            time.sleep(0.2)
        return (sum(node.cpu_times()[:2]) - before) / (time.perf_counter() - began)

    idle, watched = [], []
    for _ in range(ROUNDS):
        idle.append(share(seconds))
        with urllib.request.urlopen(f"{url}/api/live", timeout=60) as answer:
            for _ in range(6):
                answer.readline()
            watched.append(share(seconds))
    return statistics.median(idle), statistics.median(watched)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with ottla.testing.cluster(settings={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        began = time.perf_counter()
        asyncio.run(
            fill(cluster.bootstrap, topics=options.topics, partitions=options.partitions, groups=options.groups)
        )
        print(f"{options.topics} topics and {options.groups} groups after {time.perf_counter() - began:.0f} s")
        with console(cluster.bootstrap) as url:
            print(f"{'page':42} {'first':>8} {'median':>8} {'slowest':>8}")
            for page in PAGES:
                first = asked_ms(url + page)
                times = [asked_ms(url + page) for _ in range(options.repeats)]
                mark = "" if statistics.median(times) <= GOAL_MS else "  over the goal"
                print(f"{page:42} {first:8.0f} {statistics.median(times):8.0f} {max(times):8.0f}{mark}", flush=True)
            idle, watched = live_cost(url, cluster.node(1).pid, options.seconds)
            mark = "" if watched - idle <= GOAL_SHARE else ", over the goal"
            print(f"The node needs {idle:.2%} of a core at rest, {watched:.2%} with a live page open{mark}.")


if __name__ == "__main__":
    main()
