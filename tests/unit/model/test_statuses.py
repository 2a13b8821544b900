"""A key's status has to be true: honoured keys are read by code, other keys are not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.model.config import statuses
from ottla.model.config.broker_keys import BROKER_KEYS, STAND_INS
from ottla.model.config.keys import Standing
from ottla.model.config.topic_keys import TOPIC_KEYS

TESTS = Path(__file__).resolve().parents[2]
SOURCE = TESTS.parent / "src" / "ottla"

# Attributes of BrokerConfig and LogConfig through which these keys are read.
READ_THROUGH = {
    "advertised.listeners": "advertised_endpoints",
    "broker.id": "node_id",
    "controller.listener.names": "broker_endpoints",
    "controller.quorum.bootstrap.servers": "quorum_bootstrap_servers",
    "controller.quorum.voters": "quorum_voters",
    "internal.metadata.log.segment.bytes": "metadata_log_segment_bytes",
    "internal.segment.bytes": "segment_bytes",
    "listener.security.protocol.map": "security_protocol",
    "listeners": "broker_endpoints",
    "log.dir": "log_dirs",
    "max.connections.per.ip.overrides": "connections_per_ip",
    "process.roles": "is_controller",
    "security.inter.broker.protocol": "inter_broker_listener_name",
}
# Keys that no test beyond those of this package names, by the module that reads them: from there one can follow what
# becomes of the value. What a test names may be taken out.
READ_BY = {
    "broker/consumer_protocol.py": ("group.coordinator.rebalance.protocols",),
    "broker/controller_role.py": (
        "controller.quorum.election.backoff.max.ms",
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes",
        "controller.quorum.retry.backoff.ms",
    ),
    "broker/internal_topics.py": (
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.segment.bytes",
    ),
    "broker/metadata_source.py": (
        "controller.socket.timeout.ms",
        "metadata.log.segment.bytes",
        "metadata.log.segment.ms",
        "metadata.max.retention.ms",
    ),
    "broker/quotas/clients.py": (
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "quota.window.size.seconds",
    ),
    "broker/transaction_verifier.py": ("add.partitions.to.txn.retry.backoff.ms",),
    "coordinator/group/consumer/regex.py": ("group.consumer.regex.refresh.interval.ms",),
    "coordinator/group/consumer/settings.py": (
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.min.assignment.interval.ms",
    ),
    "coordinator/group/consumer/target.py": ("group.consumer.assignors",),
    "coordinator/group/service.py": (
        "offsets.commit.timeout.ms",
        "offsets.load.buffer.size",
    ),
    "coordinator/txn/service.py": ("transaction.state.log.load.buffer.size",),
    "host/followed_limits.py": ("max.connection.creation.rate",),
    "host/node_process.py": (
        "listeners",
        "replica.fetch.response.max.bytes",
    ),
    "records/validate.py": (
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
    ),
    "replica/fetcher_settings.py": (
        "replica.fetch.backoff.ms",
        "replica.fetch.min.bytes",
        "replica.socket.timeout.ms",
    ),
    "replica/throttles.py": (
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
    ),
    "storage/cleaner/cleaner.py": (
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
    ),
    "storage/maintenance.py": (
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "producer.id.expiration.check.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
    ),
    "storage/mover.py": (
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
    ),
}
# Attribute names that other classes have, too.
AMBIGUOUS = {"cordoned.log.dirs", "request.timeout.ms", "sasl.jaas.config"}


def words_of_the_code() -> frozenset[str]:
    """Every attribute that a node reads. Fields of messages have similar names, and Connect has keys of its own."""
    words: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        if parts[0] not in ("wire", "connect", "spark") and parts[:2] != ("model", "config"):
            words.update(re.findall(r"\.([a-z][a-z0-9_]+)", path.read_text(encoding="utf-8")))
        if parts[:2] == ("broker", "authentication") or (parts[0] == "host" and parts[-1].startswith("peer_")):
            # Values of a listener or a mechanism are read by the name of the key.
            keys = re.findall(r'"([a-z]+(?:\.[a-z]+)+)"', path.read_text(encoding="utf-8"))
            words.update(key.replace(".", "_") for key in keys)
    return frozenset(words)


def texts_of_the_code() -> frozenset[str]:
    """Every name of a key that is read by its name: those of TLS and of lake tables, which clients read as well."""
    paths = [*SOURCE.glob("host/tls_*.py"), *SOURCE.glob("tls/*.py"), SOURCE / "lake/settings.py"]
    return frozenset(
        text
        for path in paths
        for text in re.findall(r'"((?:ssl|ottla\.lake)\.[a-z.]+)"', path.read_text(encoding="utf-8"))
    )


WORDS = words_of_the_code()
TEXTS = texts_of_the_code()
FOLLOWED = {synonym: key for key in TOPIC_KEYS.values() for synonym in key.synonyms}


def is_read(name: str) -> bool:
    names = {name, *STAND_INS.get(name, ())}
    attributes = {READ_THROUGH.get(key, key.replace(".", "_")) for key in names}
    attributes |= {FOLLOWED[key].attribute for key in names if key in FOLLOWED}
    return bool(attributes & WORDS or names & TEXTS)


@pytest.mark.parametrize(
    "name",
    [
        key.name
        for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values())
        if key.status.standing is Standing.HONOURED and key.name not in AMBIGUOUS
    ],
)
def test_what_is_honoured_is_read(name: str) -> None:
    assert is_read(name), f"nothing reads {name}: give it a reason from statuses.py"


@pytest.mark.parametrize(
    "name",
    [
        key.name
        for key in BROKER_KEYS.values()
        if key.status.standing is not Standing.HONOURED and key.name not in AMBIGUOUS and key.name not in FOLLOWED
    ],
)
def test_what_is_not_honoured_is_not_read(name: str) -> None:
    assert READ_THROUGH.get(name, name.replace(".", "_")) not in WORDS, f"{name} is read, so it may be HONOURED"


def names_in_tests() -> frozenset[str]:
    """Every key that a test outside this package names, in its own spelling or as an attribute."""
    names: set[str] = set()
    for path in TESTS.rglob("*.py"):
        if path.parent != Path(__file__).parent:
            words = re.findall(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)+", path.read_text(encoding="utf-8"))
            names.update(word.replace("_", ".") for word in words)
    return frozenset(names)


def is_named_by_a_test(name: str, named: frozenset[str]) -> bool:
    """True if a test names the key, a stand-in, the topic key that it is the default of, or its own default."""
    names = {name, *STAND_INS.get(name, ())} | {key for key, others in STAND_INS.items() if name in others}
    names |= {FOLLOWED[key].name for key in names if key in FOLLOWED}
    if name in TOPIC_KEYS:
        names.update(TOPIC_KEYS[name].synonyms)
    return not named.isdisjoint(names)


def test_what_is_honoured_is_named_by_a_test_or_has_a_known_reader() -> None:
    named = names_in_tests()
    keys = {key.name: key for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values())}
    honoured = {name for name, key in keys.items() if key.status.standing is Standing.HONOURED}
    readers = {name: SOURCE / module for module, names in READ_BY.items() for name in names}
    unnamed = {name for name in honoured if not is_named_by_a_test(name, named)}
    assert sorted(unnamed - set(readers)) == [], "write a test that sets these"
    for name, module in readers.items():
        key = FOLLOWED.get(name) or TOPIC_KEYS.get(name)
        attribute = READ_THROUGH.get(name, name.replace(".", "_")) if key is None else key.attribute
        assert re.search(rf"\.{attribute}\b", module.read_text(encoding="utf-8")), f"{module} does not read {name}"


def test_every_reason_is_used() -> None:
    used = {id(key.status) for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values())}
    assert [name for name in statuses.__all__ if id(getattr(statuses, name)) not in used] == []
