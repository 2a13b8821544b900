"""Clients are counted and throttled, on a clock that stands until the tests move it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.context import ConnectionContext, ListenerInfo, Principal, RequestContext
from ottla.broker.quotas.allowance import Allowance, Resolution
from ottla.broker.quotas.clients import ADDRESSES_MAX, ClientQuotas
from ottla.broker.quotas.gate import Quotas
from ottla.broker.quotas.metering import Metering
from ottla.broker.quotas.meters import Meters, RateMeter
from ottla.broker.quotas.rates import WindowedRate
from ottla.broker.quotas.table import Assigned
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage, QuotaEntity
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata_records import ClientQuotaRecord, EntityData

DEFAULT_CLIENT: QuotaEntity = (("client-id", None),)


class StillClock:
    """Time stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1000)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


def context(client_id: str = "one", *, api_key: int = 0, user: str = "alice", controller: bool = False) -> Any:
    listener = ListenerInfo(
        name="L",
        security_protocol="PLAINTEXT",
        host="h",
        port=1,
        advertised_host="h",
        advertised_port=1,
        is_controller=controller,
    )
    connection = ConnectionContext(listener=listener, client_host="h", client_port=2, principal=Principal("User", user))
    return RequestContext(api_key, 9, 1, client_id, connection, 0)


def quotas(clock: Any, values: dict[str, float], *, entity: QuotaEntity = DEFAULT_CLIENT) -> ClientQuotas:
    client_quotas = ClientQuotas(BrokerConfig.embedded(), clock)
    client_quotas.change({entity: values})
    return client_quotas


def allowance(client_quotas: ClientQuotas, client_id: str = "one", *, user: str = "alice") -> Allowance:
    return client_quotas.allowance(user, client_id)


def test_a_producer_waits_until_its_rate_is_right(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"producer_byte_rate": 1000.0})
    assert allowance(client_quotas).produced(10_000) == 0
    assert allowance(client_quotas).produced(2_500) == 2_500
    # Another client has a quota of its own.
    assert allowance(client_quotas, "two").produced(10_000) == 0
    # Half a window more has passed; whole ones count when the oldest is forgotten.
    clock.seconds += 2.5
    assert allowance(client_quotas).produced(1) == 2_001
    meter = next(iter(client_quotas.produce.all(clock.seconds)))
    assert (meter.client_id, meter.throttled, meter.throttled_ms_total) == ("one", 2, 4_501)
    clock.seconds += 9
    assert allowance(client_quotas).produced(1) == 0


def test_clients_of_a_user_share_the_quota_of_the_user(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"producer_byte_rate": 1000.0}, entity=(("user", "alice"),))
    assert allowance(client_quotas, "one").produced(10_000) == 0
    assert allowance(client_quotas, "two").produced(1_000) == 1_000
    assert allowance(client_quotas, "three", user="bob").produced(1_000_000) == 0


def test_a_new_limit_holds_for_what_was_used_before(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"producer_byte_rate": 1000.0})
    assert allowance(client_quotas).produced(9_999) == 0
    client_quotas.change({DEFAULT_CLIENT: {"producer_byte_rate": 500.0}})
    assert allowance(client_quotas).produced(1) == 10_000
    client_quotas.change({})
    assert allowance(client_quotas).produced(1_000_000) == 0


def test_an_allowance_follows_every_change_of_quotas(clock: StillClock) -> None:
    """A parked fetch keeps its allowance, and is charged when it is answered."""
    client_quotas = quotas(clock, {"producer_byte_rate": 1000.0})
    kept = allowance(client_quotas)
    assert kept.fetch_bytes_max is None
    client_quotas.change({(("user", "alice"),): {"consumer_byte_rate": 1000.0, "producer_byte_rate": 10.0}})
    assert kept.fetched(8_000, 0) == (0, True)
    assert kept.fetched(8_000, 0) == (6_000, False)
    assert kept.fetch_bytes_max == 10_000
    # The allowance shares the user's meter with the user's other clients.
    assert allowance(client_quotas, "two").fetched(8_000, 0) == (6_000, False)
    assert kept.produced(200) == 10_000
    client_quotas.change({})
    assert kept.fetched(1_000_000, 0) == (0, True)
    assert kept.produced(1_000_000) == 0


def test_an_allowance_does_not_charge_a_meter_that_was_dropped(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"producer_byte_rate": 1000.0})
    kept = allowance(client_quotas)
    assert kept.produced(1) == 0
    clock.seconds += 5000
    assert list(client_quotas.produce.all(clock.seconds)) == []
    assert kept.produced(10_000) == 0
    assert [meter.client_id for meter in client_quotas.produce.all(clock.seconds)] == ["one"]
    assert allowance(client_quotas).produced(1_000) == 1_000


def test_a_fetch_that_is_too_much_is_not_given_and_does_not_count(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"consumer_byte_rate": 1000.0})
    assert allowance(client_quotas).fetch_bytes_max == 10_000
    assert allowance(client_quotas, user="bob", client_id="x").fetch_bytes_max == 10_000
    assert allowance(client_quotas).fetched(8_000, 0) == (0, True)
    assert allowance(client_quotas).fetched(3_000, 0) == (1_000, False)
    assert allowance(client_quotas).fetched(3_000, 0) == (1_000, False)
    clock.seconds += 12
    assert allowance(client_quotas).fetched(3_000, 0) == (0, True)


def test_a_batch_that_is_larger_than_the_quota_is_given_all_the_same(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"consumer_byte_rate": 1000.0})
    assert allowance(client_quotas).fetched(16_000, 0) == (6_000, True)
    assert allowance(client_quotas).fetched(16_000, 0) == (22_000, False)
    clock.seconds += 12
    assert allowance(client_quotas).fetched(16_000, 0) == (6_000, True)


def test_time_is_counted_in_percent_and_throttled_for_a_window_at_most(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"request_percentage": 1.0})
    assert client_quotas.requested(context(), 0.1) == 0
    assert client_quotas.requested(context(), 0.005) == 500
    assert client_quotas.requested(context(), 5.0) == 1_000


def test_changes_of_topics_are_refused_while_the_bucket_is_overdrawn(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"controller_mutation_rate": 2.0})
    quota = client_quotas.mutations(context(), is_strict=True)
    assert quota is not None
    quota.take(30)
    assert quota.throttle_ms() == 0
    quota = client_quotas.mutations(context(), is_strict=True)
    assert quota is not None
    with pytest.raises(KafkaError) as refused:
        quota.take(1)
    assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clock.seconds += 1
    # 8 too many at 2 a second, of which one second is over.
    assert quota.throttle_ms() == 3_000
    clock.seconds += 3
    quota.take(1)


def test_older_clients_are_let_through_and_throttled_afterwards(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"controller_mutation_rate": 2.0})
    quota = client_quotas.mutations(context(), is_strict=False)
    assert quota is not None
    quota.take(22)
    assert quota.throttle_ms() == 0
    quota.take(4)
    assert quota.throttle_ms() == 2_000


def test_connections_are_counted_by_address(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"connection_creation_rate": 1.0}, entity=(("ip", "10.0.0.1"),))
    assert [client_quotas.connected("10.0.0.1") for _ in range(11)] == [0.0] * 10 + [1.0]
    assert client_quotas.connected("10.0.0.2") == 0.0
    clock.seconds += 1.5
    # Rejected connections do not count.
    assert [client_quotas.connected("10.0.0.1") for _ in range(3)] == [0.5] * 3
    clock.seconds += 11
    assert client_quotas.connected("10.0.0.1") == 0.0


def test_addresses_that_are_counted_are_bounded(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"connection_creation_rate": 1.0}, entity=(("ip", None),))
    for number in range(ADDRESSES_MAX + 5):
        client_quotas.connected(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(client_quotas._connection_rates) == ADDRESSES_MAX


def test_meters_are_bounded_and_idle_ones_make_room() -> None:
    def make(assigned: Assigned, now: float) -> RateMeter:
        return RateMeter(assigned, WindowedRate(window_seconds=1, window_count=11), now)

    meters: Meters[RateMeter] = Meters("k", make, Resolution(), meters_max=3)
    meters.change({DEFAULT_CLIENT: {"k": 10.0}})
    for name in "abc":
        meter = meters.of("u", name, 0.0)
        assert meter is not None
        meter.record(1, 0.0)
    shared = meters.of("u", "d", 1.0)
    assert shared is not None
    shared.record(1, 1.0)
    assert shared is meters.of("u", "e", 1.0)
    assert shared.limit == 10.0
    # A minute later no client uses its quota, and there is room for all.
    assert meters.of("u", "f", 60.0) is not meters.of("u", "g", 60.0)
    assert len(meters) <= 3
    # An hour later they are no longer reported.
    assert list(meters.all(5000.0)) == []


class MutedConnection:
    def __init__(self, request: Any) -> None:
        self.muted: list[float] = []
        request.connection.mute = self.muted.append


def gate(clock: Any, values: dict[str, float]) -> Quotas:
    client_quotas = Quotas(BrokerConfig.embedded(), clock)
    image = MetadataImage(cluster_id="c")
    delta = MetadataDelta(image)
    for key, value in values.items():
        delta.replay(ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=None)], key=key, value=value))
    client_quotas.publish(delta, delta.apply(offset=1, epoch=1, timestamp_ms=1))
    return client_quotas


def test_without_quotas_there_is_nothing_behind_the_gate(clock: StillClock) -> None:
    client_quotas = gate(clock, {})
    assert (client_quotas.is_set, client_quotas.limits_connections, client_quotas.clients) == (False, False, None)


def test_the_answer_tells_and_the_connection_is_muted(clock: StillClock) -> None:
    client_quotas = gate(clock, {"producer_byte_rate": 1000.0})
    assert client_quotas.is_set
    request = context()
    connection = MutedConnection(request)
    assert charge(client_quotas, request, Metering.TIME, request_bytes=50_000) == 0
    assert charge(client_quotas, request, Metering.TIME_AND_REQUEST_BYTES, request_bytes=10_000) == 0
    assert connection.muted == []
    assert charge(client_quotas, request, Metering.TIME_AND_REQUEST_BYTES, request_bytes=500) == 500
    assert connection.muted == [0.5]
    assert charge(client_quotas, request, Metering.NONE, request_bytes=500) == 0
    assert connection.muted == [0.5]


def charge(client_quotas: Quotas, request: Any, metering: Metering, **used: Any) -> int:
    return client_quotas.charge(
        request, metering, **{"throttle_time_ms": 0, "handled_seconds": 0.0, "request_bytes": 1, **used}
    )


def test_what_the_handler_has_found_is_heeded(clock: StillClock) -> None:
    client_quotas = gate(clock, {"consumer_byte_rate": 1000.0})
    request = context(api_key=1)
    connection = MutedConnection(request)
    assert charge(client_quotas, request, Metering.TIME, throttle_time_ms=70) == 70
    assert connection.muted == [0.07]


def test_what_nodes_ask_of_a_controller_is_not_counted(clock: StillClock) -> None:
    client_quotas = gate(clock, {"request_percentage": 1.0})
    request = context(api_key=19, controller=True)
    assert charge(client_quotas, request, Metering.TIME, handled_seconds=100.0) == 0


def test_a_connection_keeps_its_allowance_until_its_client_id_or_principal_changes(clock: StillClock) -> None:
    client_quotas = gate(clock, {"consumer_byte_rate": 1000.0})
    request = context()
    connection = request.connection
    kept = client_quotas.allowance(request)
    assert kept is not None
    assert kept is client_quotas.allowance(RequestContext(1, 9, 2, "one", connection, 0))
    other = client_quotas.allowance(RequestContext(1, 9, 3, "two", connection, 0))
    assert other is not kept
    assert other is not None
    # The quota is one of the user, which both client ids share.
    assert other.fetched(9_000, 0) == (0, True)
    assert kept.fetched(9_000, 0) == (8_000, False)
    connection.identify(Principal("User", "bob"))
    after = client_quotas.allowance(RequestContext(1, 9, 4, "two", connection, 0))
    assert after is not None
    assert after.fetched(9_000, 0) == (0, True)


def test_a_produce_request_is_charged_to_the_client_id_of_its_header(clock: StillClock) -> None:
    client_quotas = Quotas(BrokerConfig.embedded(), clock)
    delta = MetadataDelta(MetadataImage(cluster_id="c"))
    entity = [EntityData(entity_type="client-id", entity_name=None)]
    delta.replay(ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1000.0))
    client_quotas.publish(delta, delta.apply(offset=1, epoch=1, timestamp_ms=1))
    request = context()
    other = RequestContext(0, 9, 2, "two", request.connection, 0)
    assert charge(client_quotas, request, Metering.TIME_AND_REQUEST_BYTES, request_bytes=10_000) == 0
    assert charge(client_quotas, other, Metering.TIME_AND_REQUEST_BYTES, request_bytes=10_000) == 0
    assert charge(client_quotas, request, Metering.TIME_AND_REQUEST_BYTES, request_bytes=1_000) == 1_000


def test_small_answers_within_a_millisecond_are_counted_with_the_first_one_after_it(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"consumer_byte_rate": 1_000_000.0})
    kept = allowance(client_quotas)
    counted: list[float] = []
    for size, now_ms in ((100, 7), (300, 7), (600, 7), (200, 7), (100, 8), (700, 8), (50, 9)):
        assert kept.fetched(size, now_ms) == (0, True)
        meter = next(iter(client_quotas.fetch.all(clock.seconds)))
        counted.append(meter.rate.rate(clock.seconds) * 10)
    # 300 and 600 are within the 1,000 bytes of a millisecond, 200 are not; 700 are told with the 50 after them.
    assert counted == [100, 100, 100, 1_200, 1_300, 1_300, 2_050]


def test_a_client_that_is_throttled_is_counted_at_once(clock: StillClock) -> None:
    client_quotas = quotas(clock, {"consumer_byte_rate": 1_000_000.0})
    kept = allowance(client_quotas)
    assert kept.fetched(10_000_000, 7) == (0, True)
    assert kept.fetched(1_000, 7) == (0, True)
    assert kept.fetched(1_000, 8) == (2, False)
    assert kept.fetched(1, 8) == (1, False)


def test_small_produce_requests_within_a_millisecond_are_counted_with_the_first_one_after_it(clock: StillClock) -> None:
    gate = Quotas(BrokerConfig.embedded(), clock)
    gate.clients = client_quotas = quotas(clock, {"producer_byte_rate": 1_000_000.0})
    request = context()
    counted: list[float] = []
    for size, now_ms in ((100, 7), (900, 7), (200, 7), (50, 8), (950, 8), (10, 9)):
        request.received_ms = now_ms
        assert gate.charge_bytes(request, size) == 0
        counted.append(next(iter(client_quotas.produce.all(clock.seconds))).rate.rate(clock.seconds) * 10)
    assert counted == [100, 100, 1_200, 1_250, 1_250, 2_210]
