from __future__ import annotations

import pytest

from ottla.model.config import BrokerConfig
from ottla.model.config.dynamic import check_dynamic_change, check_dynamic_names, check_dynamic_values, usable_dynamic
from ottla.model.errors import ErrorCode, KafkaError

CONFIG = BrokerConfig.embedded()


@pytest.mark.parametrize(
    ("name", "for_all_brokers", "message"),
    [
        ("log.dirs", False, "Cannot update these configs dynamically: [log.dirs]. Change the properties file"),
        ("log.retention.hours", False, "dynamically: [log.retention.hours]"),
        ("listeners", True, "can only be set for one broker"),
        ("listener.name.a.max.connections", True, "can only be set for one broker"),
        ("ssl.keystore.password", False, "listener.name.<listener in lower case>.ssl.keystore.password"),
    ],
)
def test_what_cannot_change_is_refused_by_name(name: str, for_all_brokers: bool, message: str) -> None:
    with pytest.raises(KafkaError) as refusal:
        check_dynamic_names([name], for_all_brokers=for_all_brokers)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert message in refusal.value.message


@pytest.mark.parametrize(
    ("name", "for_all_brokers"),
    [("log.segment.bytes", True), ("log.segment.bytes", False), ("listeners", False), ("anything.at.all", True)],
)
def test_what_may_change_passes(name: str, for_all_brokers: bool) -> None:
    check_dynamic_names([name], for_all_brokers=for_all_brokers)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("message.max.bytes", "-1"),
        ("message.max.bytes", "many"),
        ("leader.replication.throttled.rate", "-1"),
        ("listener.name.a.sasl.oauthbearer.assertion.file", "a"),
        ("max.connections", "0"),
        ("listener.name.a.max.connections", "0"),
        ("max.connection.creation.rate", "0"),
    ],
)
def test_impossible_values_are_refused(name: str, value: str) -> None:
    with pytest.raises(KafkaError) as refusal:
        check_dynamic_values({name: value})
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


def test_certificates_of_a_listener_wait_until_it_uses_tls() -> None:
    layer = {"listener.name.a.ssl.truststore.location": "/nowhere/yet.jks", "listener.name.a.ssl.key.password": "x"}
    check_dynamic_names(layer, for_all_brokers=False)
    check_dynamic_values(layer)
    assert check_dynamic_change(CONFIG, dynamic=layer).listener_overrides["A"] == {
        "ssl.truststore.location": "/nowhere/yet.jks",
        "ssl.key.password": "x",
    }


@pytest.mark.parametrize(
    "name", ["sasl.kerberos.min.time.before.relogin", "listener.name.a.sasl.kerberos.min.time.before.relogin"]
)
def test_a_key_that_only_tunes_kerberos_is_accepted(name: str) -> None:
    check_dynamic_names([name], for_all_brokers=False)
    check_dynamic_values({name: "1"})
    assert check_dynamic_change(CONFIG, dynamic={name: "1"}).dynamic == {name: "1"}
    assert any(name in note for note in BrokerConfig.embedded({name: "1"}).notes)


def test_all_that_cannot_change_is_named_at_once() -> None:
    with pytest.raises(KafkaError) as refusal:
        check_dynamic_names(["log.segment.bytes", "log.dirs", "node.id"], for_all_brokers=False)
    assert "[log.dirs, node.id]" in refusal.value.message


def test_a_change_makes_a_new_configuration() -> None:
    changed = check_dynamic_change(CONFIG, dynamic={"log.segment.bytes": "3000000", "anything": "1"})
    assert changed.log_segment_bytes == 3000000
    assert CONFIG.log_segment_bytes == 1 << 30


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"log.retention.ms": "0"}, "log.retention.ms is 0"),
        ({"num.io.threads": "17"}, "num.io.threads cannot change from 8 to 17 at once"),
        ({"num.io.threads": "3"}, "num.io.threads cannot change from 8 to 3 at once"),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads cannot change from 1 to 0 at once"),
        ({"cordoned.log.dirs": "/nowhere"}, "cordoned.log.dirs has /nowhere, but it must be among"),
        ({"group.consumer.assignment.interval.ms": "15001"}, "(0 and 15000), but is 15001"),
        ({"listeners": "PLAINTEXT://a:1,CONTROLLER://a:2"}, "listeners cannot change while the node runs yet"),
    ],
)
def test_a_change_must_leave_a_configuration_that_works(layer: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError) as refusal:
        check_dynamic_change(CONFIG, dynamic=layer)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert message in refusal.value.message


def test_no_reporters_of_metrics_are_what_there_is() -> None:
    check_dynamic_values({"metric.reporters": ""})
    with pytest.raises(KafkaError):
        check_dynamic_values({"metric.reporters": "com.example.Reporter"})


def test_a_pool_may_double_or_halve() -> None:
    assert check_dynamic_change(CONFIG, dynamic={"num.io.threads": "16"}).num_io_threads == 16
    assert check_dynamic_change(CONFIG, dynamic={"num.io.threads": "4"}).num_io_threads == 4


def test_what_the_log_holds_never_stops_the_node() -> None:
    config, problems = usable_dynamic(
        CONFIG,
        dynamic={"log.segment.bytes": "3000000", "message.max.bytes": "many", "security.providers": "A"},
        dynamic_defaults={"log.retention.ms": "0", "num.partitions": "5"},
    )
    assert config.log_segment_bytes == 3000000
    assert config.num_partitions == 5
    assert config.message_max_bytes == 1048588
    assert len(problems) == 3


def test_layers_that_cannot_be_together_are_taken_off() -> None:
    config, problems = usable_dynamic(CONFIG, dynamic={"log.cleaner.threads": "1000"}, dynamic_defaults={})
    assert config.log_cleaner_threads == 1
    assert len(problems) == 1


def test_only_what_does_not_fit_is_taken_off() -> None:
    config, problems = usable_dynamic(
        CONFIG,
        dynamic={"message.max.bytes": "5", "log.cleaner.threads": "1000"},
        dynamic_defaults={"min.insync.replicas": "2"},
    )
    assert (config.log_cleaner_threads, config.message_max_bytes, config.min_insync_replicas) == (1, 5, 2)
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.connections.per.ip.overrides", f"127.0.0.1:{'9' * 5000}"),
        ("listeners", f"PLAINTEXT://127.0.0.1:{'9' * 5000},CONTROLLER://127.0.0.1:9093"),
        ("ottla.metrics.listener", f"127.0.0.1:{'9' * 5000}"),
        ("log.cleaner.io.buffer.load.factor", "nan"),
    ],
)
def test_a_number_that_cannot_be_read_is_one_problem_of_many(name: str, value: str) -> None:
    config, problems = usable_dynamic(CONFIG, dynamic={name: value, "message.max.bytes": "5"}, dynamic_defaults={})
    assert config.message_max_bytes == 5
    assert len(problems) == 1


def test_keys_of_our_own_do_not_change_while_the_node_runs() -> None:
    with pytest.raises(KafkaError, match=r"ottla\.metrics\.listener"):
        check_dynamic_names(["ottla.metrics.listener"], for_all_brokers=False)
