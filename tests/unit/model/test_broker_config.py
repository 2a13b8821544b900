from __future__ import annotations

import pytest

from ottla.model.config import BrokerConfig, ConfigError, Endpoint, Password, Voter, parse_properties

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://host:9092,CONTROLLER://host:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@host:9093",
}
BROKER_ONLY = {
    "process.roles": "broker",
    "node.id": "2",
    "listeners": "PLAINTEXT://host:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@host:9093",
}


def config(**changes: str) -> BrokerConfig:
    return BrokerConfig(changed(COMBINED, changes))


def changed(base: dict[str, str], changes: dict[str, str]) -> dict[str, str]:
    return {**base, **{name.replace("_", "."): value for name, value in changes.items()}}


def test_defaults_are_typed() -> None:
    plain = config()
    assert plain.log_segment_bytes == 1 << 30
    assert plain.log_cleaner_min_cleanable_ratio == 0.5
    assert plain.auto_create_topics_enable is True
    assert plain.ssl_enabled_protocols == ("TLSv1.2", "TLSv1.3")
    assert plain.broker_rack is None
    assert plain.warnings == ()


def test_values_are_typed() -> None:
    set_up = config(log_segment_bytes=" 2097152 ", auto_create_topics_enable="FALSE", broker_rack="a")
    assert set_up.log_segment_bytes == 2097152
    assert set_up.auto_create_topics_enable is False
    assert set_up.broker_rack == "a"
    assert set_up.get("log.segment.bytes") == 2097152


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        config().log_segment_bytes = 1


def test_an_unknown_key_has_no_value() -> None:
    with pytest.raises(KeyError):
        config().get("no.such.key")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 168 * 3_600_000),
        ({"log_retention_hours": "1"}, 3_600_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "2"}, 120_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "2", "log_retention_ms": "3"}, 3),
        ({"log_retention_ms": "-1"}, -1),
        ({"log_retention_ms": "-5"}, -1),
        ({"log_retention_hours": "-1"}, -1),
    ],
)
def test_retention_is_taken_from_the_finest_unit(settings: dict[str, str], expected: int) -> None:
    assert config(**settings).log_retention_ms == expected


@pytest.mark.parametrize(
    ("settings", "attribute", "expected"),
    [
        ({}, "log_roll_ms", 168 * 3_600_000),
        ({"log_roll_hours": "2"}, "log_roll_ms", 7_200_000),
        ({"log_roll_hours": "2", "log_roll_ms": "5"}, "log_roll_ms", 5),
        ({"log_roll_jitter_hours": "1"}, "log_roll_jitter_ms", 3_600_000),
        ({"log_roll_jitter_hours": "1", "log_roll_jitter_ms": "7"}, "log_roll_jitter_ms", 7),
        ({}, "log_flush_interval_ms", (1 << 63) - 1),
        ({"log_flush_scheduler_interval_ms": "9"}, "log_flush_interval_ms", 9),
        ({"log_flush_scheduler_interval_ms": "9", "log_flush_interval_ms": "8"}, "log_flush_interval_ms", 8),
        ({}, "log_dirs", ("/tmp/kafka-logs",)),
        ({"log_dir": "/a"}, "log_dirs", ("/a",)),
        ({"log_dir": "/a", "log_dirs": "/b, /c"}, "log_dirs", ("/b", "/c")),
        ({"log_dirs": "/b,/c"}, "metadata_log_dir", "/b"),
        ({"log_dirs": "/b,/c", "metadata_log_dir": "/m"}, "metadata_log_dir", "/m"),
        ({"log_dirs": "/b,/c"}, "num_replica_alter_log_dirs_threads", 2),
        ({"internal_metadata_log_segment_bytes": "99"}, "metadata_log_segment_bytes", 99),
        ({}, "inter_broker_listener_name", "PLAINTEXT"),
        ({"max_connections_per_ip_overrides": "a:5, [::1]:7"}, "connections_per_ip", {"a": 5, "::1": 7}),
    ],
)
def test_one_key_stands_in_for_another(settings: dict[str, str], attribute: str, expected: object) -> None:
    assert getattr(config(**settings), attribute) == expected


def test_listeners_are_split_between_broker_and_controller() -> None:
    plain = config()
    assert plain.is_broker
    assert plain.is_controller
    assert plain.broker_endpoints == (Endpoint("PLAINTEXT", "host", 9092, "PLAINTEXT"),)
    assert plain.controller_endpoints == (Endpoint("CONTROLLER", "host", 9093, "PLAINTEXT"),)
    assert plain.advertised_endpoints == plain.broker_endpoints
    assert plain.quorum_voters == {1: Voter(1, "host", 9093)}


def test_what_is_advertised_may_differ_from_what_is_bound() -> None:
    plain = config(listeners="plaintext://0.0.0.0:0,CONTROLLER://:9093", advertised_listeners="PLAINTEXT://[::1]:19092")
    assert plain.endpoints[0] == Endpoint("PLAINTEXT", "0.0.0.0", 0, "PLAINTEXT")
    assert [str(endpoint) for endpoint in plain.advertised_endpoints] == ["PLAINTEXT://[::1]:19092"]


def test_broker_id_is_the_older_name_of_node_id() -> None:
    older = {name: value for name, value in COMBINED.items() if name != "node.id"}
    assert BrokerConfig({**older, "broker.id": "1"}).node_id == 1
    assert config().broker_id == 1


def test_bootstrap_servers_may_stand_for_voters() -> None:
    settings = {**COMBINED, "controller.quorum.bootstrap.servers": "a:1,[::1]:2"}
    del settings["controller.quorum.voters"]
    plain = BrokerConfig(settings)
    assert plain.quorum_voters == {}
    assert plain.quorum_bootstrap_servers == (("a", 1), ("::1", 2))


def test_a_key_may_be_set_for_one_listener() -> None:
    plain = BrokerConfig({**COMBINED, "listener.name.plaintext.max.connections": "7"})
    assert plain.listener_overrides == {"PLAINTEXT": {"max.connections": "7"}}
    assert plain.notes == ()


@pytest.mark.parametrize(
    ("name", "value", "warning"),
    [
        ("zookeeper.connect", "z:2181", "zookeeper.connect is ignored since 4.0: metadata is kept by the controllers"),
        ("zookeeper.session.timeout.ms", "1", "zookeeper.session.timeout.ms is ignored since 4.0"),
        ("log.cleaner.enabled", "true", "log.cleaner.enabled is ignored because its name is log.cleaner.enable"),
        ("message.format.version", "2.0", "message.format.version is ignored since 4.0"),
        ("inter.broker.protocol.version", "3.9", "inter.broker.protocol.version is ignored since 4.0"),
        ("listener.name.plaintext.num.network.threads", "5", "listener.name.plaintext.num.network.threads has no"),
        ("listener.name.a.ssl.keystore.location", "f", "listener.name.a.ssl.keystore.location has no"),
        (
            "file.delete.delay.ms",
            "1",
            "file.delete.delay.ms is ignored: topics have it, brokers have log.segment.delete",
        ),
        ("max.message.size", "1", "max.message.size is ignored because its name is message.max.bytes"),
        ("no.such.key", "1", "no.such.key is ignored: it is not a broker configuration"),
        ("num.network.threads", "9", "num.network.threads has no effect: one thread owns"),
    ],
)
def test_what_is_ignored_is_said(name: str, value: str, warning: str) -> None:
    config = BrokerConfig({**COMBINED, name: value})
    (notice,) = config.warnings + config.notes
    assert bool(config.notes) == (" has no effect: " in warning or warning.endswith(" has no"))
    assert notice.startswith(warning)
    assert notice.endswith(".")


def test_a_heartbeat_that_may_not_be_late_is_warned_of() -> None:
    (warning,) = BrokerConfig({**COMBINED, "broker.session.timeout.ms": "3999"}).warnings
    assert "broker.heartbeat.interval.ms is 2000, more than half of broker.session.timeout.ms, which is 3999" in warning
    assert BrokerConfig({**COMBINED, "broker.session.timeout.ms": "4000"}).warnings == ()


def test_an_inert_key_at_its_default_is_not_worth_a_word() -> None:
    assert config(num_network_threads="3").notes == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"log.segment.bytes": "1"}, "log.segment.bytes is 1, but it must be at least 1048576."),
        ({"log.segment.bytes": "1x"}, "log.segment.bytes is '1x', but it must be a whole number of 32 bits."),
        ({"log.segment.bytes": "1_000_000_000"}, "must be a whole number"),
        ({"log.segment.bytes": "9999999999"}, "must be a whole number"),
        ({"delete.topic.enable": "on"}, "delete.topic.enable is 'on', but it must be true or false."),
        ({"compression.type": "brotli"}, "compression.type is brotli, but it must be one of uncompressed, zstd,"),
        ({"process.roles": "boss"}, "process.roles is boss, but it must be a list of broker, controller."),
        ({"broker.id": "2"}, "node.id is 1 and broker.id is 2"),
        ({"node.id": "-1"}, "node.id is -1, but it must be at least 0"),
        ({"listeners": "host:9092"}, "must look like NAME://host:port"),
        ({"listeners": "PLAINTEXT://host"}, "does not end in a port"),
        ({"listeners": "PLAINTEXT://host:99999,CONTROLLER://:1"}, "does not end in a port"),
        ({"listeners": "PLAINTEXT://::1:9092,CONTROLLER://:1"}, "IPv6 address must be in brackets"),
        ({"listeners": "OUTSIDE://host:1,CONTROLLER://host:2"}, "listener.security.protocol.map must say which"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2,CONTROLLER://:3"}, "uses the listener name PLAINTEXT twice"),
        ({"listeners": "PLAINTEXT://a:1,CONTROLLER://a:1"}, "listeners uses the port 1 twice"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://:2"}, "no client can connect to 0.0.0.0"),
        ({"listeners": "PLAINTEXT://:9092"}, "must have all of them in listeners"),
        ({"listeners": "CONTROLLER://:9093"}, "needs a listener that is not in controller.listener.names"),
        ({"advertised.listeners": "SSL://a:1"}, "advertised.listeners has SSL, which listeners does not have"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "no client can connect to 0.0.0.0"),
        ({"inter.broker.listener.name": "INSIDE"}, "is not in listener.security.protocol.map"),
        ({"inter.broker.listener.name": "SSL"}, "must be one of the advertised listeners: PLAINTEXT"),
        ({"listener.security.protocol.map": "A:TLS"}, "must look like NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "A:SSL,a:PLAINTEXT"}, "maps the listener A twice"),
        (
            {
                "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
            },
            "the listener PLAINTEXT offers GSSAPI",
        ),
        ({"controller.quorum.voters": "2@host:1"}, "controller.quorum.voters has no 1"),
        ({"controller.quorum.voters": "1@a:1,1@b:2"}, "names the voter 1 twice"),
        ({"controller.quorum.voters": "host:9093"}, "must look like id@host:port"),
        ({"controller.quorum.voters": "1@:9093"}, "names no host"),
        ({"controller.quorum.voters": ""}, "One of controller.quorum.voters and controller.quorum.bootstrap.servers"),
        ({"controller.quorum.bootstrap.servers": "host"}, "does not end in a port"),
        ({"log.retention.ms": "0"}, "log.retention.ms is 0"),
        ({"log.roll.ms": "0"}, "log.roll.ms is 0"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms is -1"),
        ({"offsets.topic.compression.codec": "5"}, "must be the number of a codec (0 to 4), but is 5."),
        ({"group.consumer.assignors": "uniform,mine"}, "names mine, but only uniform and range are available."),
        (
            {"group.consumer.session.timeout.ms": "1000"},
            "between its minimum and maximum (45000 and 60000), but is 1000",
        ),
        ({"cordoned.log.dirs": "*,/a", "log.dirs": "/a"}, "it must name no other"),
        ({"cordoned.log.dirs": "/a/", "log.dirs": "/a"}, "cordoned.log.dirs has /a/, but it must be among"),
        ({"group.share.heartbeat.interval.ms": "1"}, "between its minimum and maximum (5000 and 15000), but is 1."),
        ({"group.consumer.heartbeat.interval.ms": "1"}, "between its minimum and maximum (5000 and 15000), but is 1."),
        ({"log.dirs": ""}, "log.dirs is empty, but it must be a list of at least one entry"),
        ({"log.dirs": "/a,,/b"}, "in which no entry is blank"),
        ({"log.cleaner.dedupe.buffer.size": "1000"}, "must be more than 1 MiB"),
        ({"replica.fetch.wait.max.ms": "40000"}, "must not be greater than replica.socket.timeout.ms"),
        ({"replica.lag.time.max.ms": "100"}, "must not be greater than replica.lag.time.max.ms"),
        ({"queued.max.request.bytes": "5"}, "must be at least socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "only if max.connections.per.ip.overrides"),
        ({"max.connections.per.ip.overrides": "a"}, "must look like host:limit"),
        ({"connections.max.idle.ms": "50"}, "must be less than connections.max.idle.ms"),
        ({"host.name": "a"}, "host.name cannot be used: removed in 3.0"),
        ({"quota.producer.default": "1"}, "set producer_byte_rate"),
        (
            {"sasl.oauthbearer.assertion.private.key.passphrase": "secret"},
            "sasl.oauthbearer.assertion.private.key.passphrase cannot be set to [hidden]",
        ),
        ({"listener.name.a.sasl.oauthbearer.assertion.file": "a"}, "tokens are not requested with assertions"),
        ({"listener.name.a.nonsense": "f"}, "does not end in the name of a broker configuration"),
        ({"replica.selector.class": "a.b.C"}, "replica.selector.class is a.b.C, but classes cannot be loaded"),
        ({"remote.log.storage.system.enable": "true"}, "tiered storage is not available"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig({**COMBINED, **changes})
    assert message in refusal.value.message
    assert refusal.value.message.endswith(".")
    assert refusal.value.key in (*changes, "replica.fetch.wait.max.ms", "connection.failed.authentication.delay.ms",
                                 "controller.listener.names", "controller.quorum.voters", "listeners",
                                 "advertised.listeners")  # fmt: skip


@pytest.mark.parametrize("missing", ["process.roles", "node.id", "controller.listener.names"])
def test_required_keys_are_missed(missing: str) -> None:
    settings = {name: value for name, value in COMBINED.items() if name != missing}
    with pytest.raises(ConfigError, match=f"{missing} is missing and has no default"):
        BrokerConfig(settings)


def test_a_file_of_zookeeper_times_is_told_why() -> None:
    with pytest.raises(ConfigError, match="no ZooKeeper mode any more"):
        BrokerConfig({"broker.id": "1", "zookeeper.connect": "z:2181"})


def test_a_broker_alone_is_no_voter() -> None:
    assert not BrokerConfig(BROKER_ONLY).is_controller
    with pytest.raises(ConfigError, match="must not be a voter"):
        BrokerConfig({**BROKER_ONLY, "node.id": "1"})
    with pytest.raises(ConfigError, match="must have none of them in listeners"):
        BrokerConfig({**BROKER_ONLY, "listeners": "PLAINTEXT://host:1,CONTROLLER://host:2"})


def test_a_controller_alone_has_no_listener_for_clients() -> None:
    settings = {**COMBINED, "process.roles": "controller", "listeners": "CONTROLLER://host:9093"}
    assert BrokerConfig(settings).advertised_endpoints == ()
    with pytest.raises(ConfigError, match="only the controller role"):
        BrokerConfig({**settings, "listeners": COMBINED["listeners"]})


def test_dynamic_values_go_over_the_file() -> None:
    plain = config(log_segment_bytes="2097152")
    for_all = plain.with_dynamic(dynamic_defaults={"log.segment.bytes": "3000000"})
    own = for_all.with_dynamic(dynamic={"log.segment.bytes": "4000000"})
    assert [broker_config.log_segment_bytes for broker_config in (plain, for_all, own)] == [2097152, 3000000, 4000000]
    assert own.with_dynamic(dynamic={}).log_segment_bytes == 3000000


def test_a_password_is_not_shown() -> None:
    assert repr(Password("x")) == "[hidden]"


# The settings of the file that a fresh Apache Kafka 4.3 starts with.
FRESH = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_the_file_of_a_fresh_kafka_is_read_without_a_warning() -> None:
    fresh = BrokerConfig(parse_properties(FRESH))
    assert fresh.warnings == ()
    assert [str(endpoint) for endpoint in fresh.advertised_endpoints] == ["PLAINTEXT://localhost:9092"]
    assert fresh.log_dirs == ("/tmp/kraft-combined-logs",)


def test_an_advertised_controller_needs_an_address_too() -> None:
    with pytest.raises(ConfigError, match=r"no client can connect to 0\.0\.0\.0"):
        config(advertised_listeners="PLAINTEXT://host:9092,CONTROLLER://0.0.0.0:9093")
