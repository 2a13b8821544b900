"""The properties file of lake tables."""

from __future__ import annotations

import pytest

from ottla.lake.errors import LakeError
from ottla.lake.settings import Mode, read_settings

FILE = {"bootstrap.servers": "localhost:9092", "warehouse": "/data/lake"}


def test_a_topic_follows_its_own_key_then_its_configuration_then_the_file() -> None:
    settings = read_settings({**FILE, "topics": "orders, eu[.].*", "mode": "raw", "topic.eu.a.mode": "typed"})
    configured = {"ottla.lake.mode": "upsert", "ottla.lake.partition.by": "day(timestamp), bucket(4, key)"}
    assert settings.table("orders", {}).mode is Mode.RAW
    assert settings.table("orders", configured).mode is Mode.UPSERT
    assert settings.table("orders", configured).partition_by == ("day(timestamp)", "bucket(4, key)")
    assert settings.table("eu.a", configured).mode is Mode.TYPED
    assert settings.table("eu.a", {}).identifier == ("lake", "eu_a")


def test_topics_are_selected_by_name_by_pattern_and_by_their_own_mode() -> None:
    settings = read_settings({**FILE, "topics": "orders, eu[.].*"})
    selected = [topic for topic in ("orders", "orders2", "eu.a") if settings.selects(topic, {})]
    assert selected == ["orders", "eu.a"]
    assert settings.selects("other", {"ottla.lake.mode": "raw"})
    assert not settings.selects("orders", {"ottla.lake.mode": "off"})


def test_the_catalog_is_a_file_of_the_warehouse_unless_one_is_named() -> None:
    assert read_settings(FILE).catalog == {
        "type": "sql",
        "uri": "sqlite:////data/lake/catalog.db",
        "warehouse": "/data/lake",
    }
    catalog = read_settings({**FILE, "catalog.uri": "http://localhost:8181", "catalog.token": "t"}).catalog
    assert (catalog["type"], catalog["token"]) == ("rest", "t")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"modes": "raw"}, "Did you mean mode?"),
        ({"mode": "rows"}, "mode = rows must be one of off, raw, typed, upsert, typed-upsert."),
        ({"topic.a.b.mode": "rows"}, "mode = rows must be one of"),
        ({"topic.a.moed": "raw"}, "topic.a.moed is not a key of lake tables."),
        ({"commit.interval.ms": "soon"}, "must be a number"),
        ({"topics": "a("}, "neither a name nor a pattern"),
        ({"warehouse": ""}, "warehouse is missing"),
        ({"warehouse": "s3://bucket/lake"}, "needs a catalog"),
    ],
)
def test_a_wrong_key_or_value_is_one_sentence(changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(LakeError) as failure:
        read_settings({**FILE, **changes})
    assert sentence in str(failure.value)
