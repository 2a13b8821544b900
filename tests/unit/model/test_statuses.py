"""A key's status has to be true: what is honoured is read by some code, what is not is read by none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.model.config import statuses
from ottla.model.config.broker_keys import BROKER_KEYS, STAND_INS
from ottla.model.config.keys import Standing
from ottla.model.config.topic_keys import TOPIC_KEYS

SOURCE = Path(__file__).resolve().parents[3] / "src" / "ottla"

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
}
# Names that other things have too.
AMBIGUOUS = {"cordoned.log.dirs", "request.timeout.ms"}


def words_of_the_code() -> frozenset[str]:
    """Every attribute that is read, outside of the tables and of the messages, whose fields have like names."""
    words: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        if parts[0] != "wire" and parts[:2] != ("model", "config"):
            words.update(re.findall(r"\.([a-z][a-z0-9_]+)", path.read_text(encoding="utf-8")))
    return frozenset(words)


WORDS = words_of_the_code()
FOLLOWED = {synonym: key for key in TOPIC_KEYS.values() for synonym in key.synonyms}


def is_read(name: str) -> bool:
    names = {name, *STAND_INS.get(name, ())}
    attributes = {READ_THROUGH.get(each, each.replace(".", "_")) for each in names}
    attributes |= {FOLLOWED[each].attribute for each in names if each in FOLLOWED}
    return bool(attributes & WORDS)


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


def test_every_reason_is_used() -> None:
    used = {id(key.status) for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values())}
    assert [name for name in statuses.__all__ if id(getattr(statuses, name)) not in used] == []
