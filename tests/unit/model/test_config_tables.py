"""The tables compared with Apache Kafka 4.3.1's own definitions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.model.config.broker_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, STAND_INS
from ottla.model.config.keys import ConfigError, ConfigKey, Standing
from ottla.model.config.removed_keys import IGNORED_BROKER_KEYS, REMOVED_BROKER_KEYS
from ottla.model.config.resource_keys import CLIENT_METRICS_KEYS, GROUP_KEYS
from ottla.model.config.topic_keys import KAFKA_TOPIC_KEYS, REMOVED_TOPIC_KEYS
from ottla.model.config.values import REQUIRED, ConfigType, format_value

from .facts import KAFKA

ROOT = Path(__file__).resolve().parents[3]

TABLES: dict[str, Mapping[str, ConfigKey]] = {
    "broker": BROKER_KEYS,
    "topic": KAFKA_TOPIC_KEYS,
    "group": GROUP_KEYS,
    "client_metrics": CLIENT_METRICS_KEYS,
}
ENTRIES = [(table, name) for table in TABLES for name in KAFKA[table]]

NUMBERS = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE)
# Kafka's validators of these also parse the entries; ours does that when a BrokerConfig is made.
PARSED_LATER = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
CHECKED = [(table, name) for table, name in ENTRIES if "accepts" in KAFKA[table][name] and name not in PARSED_LATER]


@pytest.mark.parametrize("table", TABLES)
def test_the_same_keys_exist(table: str) -> None:
    assert set(TABLES[table]) == set(KAFKA[table])


@pytest.mark.parametrize(("table", "name"), ENTRIES)
def test_type_default_importance_and_update_mode_are_kafkas(table: str, name: str) -> None:
    key, fact = TABLES[table][name], KAFKA[table][name]
    ours: dict[str, Any] = {"type": key.type.name, "importance": key.importance.value}
    ours["default"] = "<none>" if key.default is REQUIRED else format_value(key.default)  # type: ignore[arg-type]
    if "update" in fact:
        ours["update"] = key.update_mode.value
    if key.internal:
        ours["internal"] = True
    if ours["default"] is not None and name == "listener.security.protocol.map":
        ours["default"], fact = set(ours["default"].split(",")), {**fact, "default": set(fact["default"].split(","))}
    assert ours == {field: value for field, value in fact.items() if field != "accepts"}


@pytest.mark.parametrize(("table", "name"), CHECKED)
def test_what_a_key_accepts_is_what_kafka_accepts(table: str, name: str) -> None:
    key = TABLES[table][name]
    kind = "number" if key.type in NUMBERS else "list" if key.type is ConfigType.LIST else "text"
    samples = KAFKA["samples"][kind]
    ours = "".join("0" if why_refused(key, sample) else "1" for sample in samples)
    differing = [s for s, a, b in zip(samples, ours, KAFKA[table][name]["accepts"], strict=True) if a != b]
    assert differing == []


def why_refused(key: ConfigKey, text: str) -> str | None:
    try:
        key.parse(text)
    except ConfigError as error:
        return error.message
    return None


@pytest.mark.parametrize(("table", "name"), CHECKED)
def test_a_refusal_is_one_sentence_that_names_the_key(table: str, name: str) -> None:
    for samples in KAFKA["samples"].values():
        for sample in samples:
            message = why_refused(TABLES[table][name], sample)
            if message is not None:
                assert message.startswith(f"{name} is ")
                assert ", but it must be " in message
                assert message.endswith(".")


def test_topic_keys_follow_the_same_broker_keys() -> None:
    assert {name: list(key.synonyms) for name, key in KAFKA_TOPIC_KEYS.items()} == KAFKA["topic_synonyms"]


def test_the_same_keys_stand_in_for_each_other() -> None:
    assert {name: list(group) for name, group in STAND_INS.items()} == KAFKA["stand_ins"]


def test_the_same_keys_are_dynamic_only() -> None:
    assert sorted(DYNAMIC_ONLY_KEYS) == KAFKA["dynamic_only"]


@pytest.mark.parametrize("table", TABLES)
def test_every_synonym_exists_and_has_the_same_default(table: str) -> None:
    for key in TABLES[table].values():
        for synonym in key.synonyms:
            assert synonym in BROKER_KEYS
        if len(key.synonyms) == 1:
            assert key.default == BROKER_KEYS[key.synonyms[0]].default


@pytest.mark.parametrize(("table", "name"), ENTRIES)
def test_every_key_says_what_it_is_for(table: str, name: str) -> None:
    key = TABLES[table][name]
    assert key.documentation.endswith(".")
    assert key.documentation[0].isupper()
    assert bool(key.status.reason) == (key.status.standing is not Standing.HONOURED)


def test_no_key_is_in_two_tables_of_the_past() -> None:
    assert not (IGNORED_BROKER_KEYS.keys() | REMOVED_BROKER_KEYS.keys()) & BROKER_KEYS.keys()
    assert not IGNORED_BROKER_KEYS.keys() & REMOVED_BROKER_KEYS.keys()
    assert not REMOVED_TOPIC_KEYS.keys() & KAFKA_TOPIC_KEYS.keys()


def test_generated_files_are_up_to_date() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "tools/generate_config_docs.py"), "--check"], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
