"""The files of examples/mirror, with clusters: every topic arrives where its topology says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ottla.mirror.migration.settings import migration_settings
from ottla.mirror.mirror import Mirror
from ottla.mirror.settings import MirrorSettings, read_settings
from ottla.model.config import parse_properties
from ottla.testing.clusters import Cluster, cluster
from tests.mirror.flows import create, has_no_lag, numbers_of, produce, read_all, until

EXAMPLES = Path(__file__).parents[2] / "examples" / "mirror"
# Where records are written (cluster, topic), and where they are read.
WRITTEN = {
    "active_standby": [("primary", "orders")],
    "active_active": [("east", "orders"), ("west", "orders")],
    "hub_and_spoke": [("hub", "prices"), ("hub", "news")],
    "aggregation": [("shop1", "sales"), ("shop2", "sales")],
    "cloud_migration": [("onprem", "orders")],
}
READ = {
    "active_standby": [("backup", "orders")],
    "active_active": [("west", "east.orders"), ("east", "west.orders")],
    "hub_and_spoke": [("north", "prices"), ("north", "news"), ("south", "prices")],
    "aggregation": [("central", "shop1.sales"), ("central", "shop2.sales")],
    "cloud_migration": [("cloud", "orders")],
}


@pytest.fixture(scope="module")
def sites() -> Iterator[list[Cluster]]:
    with cluster() as first, cluster() as second, cluster() as third:
        yield [first, second, third]


def test_every_example_is_tested() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.properties")} == set(WRITTEN) == set(READ)


def settings_of(name: str, sites: list[Cluster]) -> tuple[MirrorSettings, Mapping[str, Cluster]]:
    properties = parse_properties((EXAMPLES / f"{name}.properties").read_text())
    # What is left of one example must not be copied by the next one, which uses the same clusters.
    prefix = f"{name.replace('_', '-')}-"
    aliases = [alias.strip() for alias in properties["clusters"].split(",")]
    clusters = dict(zip(aliases, sites, strict=False))
    for key, value in list(properties.items()):
        if key.endswith("bootstrap.servers"):
            properties[key] = clusters[key.partition(".")[0]].bootstrap
        elif key.endswith("topics"):
            properties[key] = ", ".join(prefix + topic.strip() for topic in value.split(","))
    properties.setdefault("topics", f"{prefix}.*")
    properties |= {"ottla.commit.interval.ms": "50", "emit.heartbeats.enabled": "false"}
    if name == "cloud_migration":
        return migration_settings(properties)[0], clusters
    return read_settings(properties), clusters


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_topics_arrive_where_the_topology_says(name: str, sites: list[Cluster]) -> None:
    settings, clusters = settings_of(name, sites)
    asyncio.run(asyncio.wait_for(arrives(name, settings, clusters), 100))


async def arrives(name: str, settings: MirrorSettings, clusters: Mapping[str, Cluster]) -> None:
    prefix = f"{name.replace('_', '-')}-"
    for site, topic in WRITTEN[name]:
        await create(clusters[site], prefix + topic, partitions=2)
        await produce(clusters[site].bootstrap, prefix + topic, range(30))
    mirror = Mirror(settings, runs_on="threads")
    running = asyncio.ensure_future(mirror.run())
    try:
        for site, topic in READ[name]:
            origin, dot, own = topic.rpartition(".")
            copy = f"{origin}{dot}{prefix}{own}"
            assert numbers_of(await read_all(clusters[site].bootstrap, copy, 30)) == list(range(30))
        await until(lambda: has_no_lag(settings))
    finally:
        mirror.stop()
        await running
