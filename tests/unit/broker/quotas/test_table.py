"""Which quota applies to a client."""

from __future__ import annotations

import pytest

from ottla.broker.quotas.table import Assigned, ConnectionLimits, QuotaTable
from ottla.metadata.image import QuotaEntity

KEY = "producer_byte_rate"


def entity(**names: str | None) -> QuotaEntity:
    return tuple(sorted((kind.replace("_", "-"), name) for kind, name in names.items()))


# In order of precedence, with the clients that share the quota.
LEVELS: list[tuple[QuotaEntity, tuple[str, str]]] = [
    (entity(user="alice", client_id="one"), ("alice", "one")),
    (entity(user="alice", client_id=None), ("alice", "one")),
    (entity(user="alice"), ("alice", "")),
    (entity(user=None, client_id="one"), ("alice", "one")),
    (entity(user=None, client_id=None), ("alice", "one")),
    (entity(user=None), ("alice", "")),
    (entity(client_id="one"), ("", "one")),
    (entity(client_id=None), ("", "one")),
]


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_the_most_specific_one_holds(level: int) -> None:
    quotas = {names: {KEY: float(place)} for place, (names, _) in enumerate(LEVELS) if place >= level}
    assert QuotaTable(KEY, quotas).assigned("alice", "one") == Assigned(*LEVELS[level][1], float(level))


def test_others_have_theirs_or_none() -> None:
    table = QuotaTable(KEY, {entity(user="alice"): {KEY: 1.0}, entity(client_id="one"): {KEY: 2.0, "other": 3.0}})
    assert table.assigned("bob", "two") is None
    assert table.assigned("bob", "one") == Assigned("", "one", 2.0)
    assert table.assigned("alice", "one") == Assigned("alice", "", 1.0)
    assert QuotaTable("other", {entity(ip="1.2.3.4"): {"other": 1.0}}).assigned("", "") is None


def test_a_client_without_an_id_has_the_default() -> None:
    table = QuotaTable(KEY, {entity(client_id=None): {KEY: 1.0}})
    assert table.assigned("alice", "") == Assigned("", "", 1.0)


def test_a_table_knows_whether_there_is_anything_in_it() -> None:
    assert not QuotaTable(KEY, {entity(user="alice"): {"other": 1.0}})
    assert QuotaTable(KEY, {entity(user="alice"): {KEY: 1.0}})


def test_addresses_have_their_own_limit_or_the_default() -> None:
    key = ConnectionLimits.KEY
    limits = ConnectionLimits({entity(ip="10.0.0.1"): {key: 5.0}, entity(ip="::1"): {key: 6.0}})
    assert limits
    assert (limits.of("10.0.0.1"), limits.of("0:0::0:1"), limits.of("10.0.0.2")) == (5.0, 6.0, None)
    limits = ConnectionLimits({entity(ip=None): {key: 7.0}, entity(ip="a.host"): {key: 8.0}})
    assert (limits.of("10.0.0.2"), limits.of("no address")) == (7.0, 7.0)
    assert not ConnectionLimits({entity(user="alice"): {KEY: 1.0}})
