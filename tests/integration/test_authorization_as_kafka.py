"""Every API under many sets of ACLs: the same answers as Apache Kafka 4.3 gives, field by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.make_authorization_answers import read_answers
from tests.support.authorization_scenario import LISTENERS, SETTINGS, Places, play
from tests.support.brokers import OttlaFromFile, free_ports

KAFKA = read_answers()

# Intended differences from Apache Kafka, with their reasons.
DIFFERENCES = {
    f"alter configs by steps, version {version}": "Apache Kafka has no sentence for a broker's loggers; we have one"
    for version in (0, 1)
}
DIFFERENCES["produce as None, version 12"] = (
    "transactional batches in a request without a transactional id: Apache Kafka refuses the whole request, we refuse "
    "these batches, because we look into a batch when it is its turn"
)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    places = Places(*(f"127.0.0.1:{port}" for port in free_ports(len(LISTENERS))))
    settings = {
        **SETTINGS,
        "listeners": places.listeners,
        "controller.quorum.voters": f"1@{places.controller}",
        "principal.builder.class": "tests.support.listener_principals.by_listener",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
        with OttlaFromFile(tmp_path_factory.mktemp("node"), settings):
            played: dict[str, Any] = json.loads(json.dumps(play(places)))
            return played


def test_the_scenario_is_the_one_kafka_was_asked(answers: dict[str, Any]) -> None:
    assert set(answers) == set(KAFKA)
    assert all(set(answers[label]["sets"]) == set(kept["sets"]) for label, kept in KAFKA.items())


@pytest.mark.parametrize("label", list(KAFKA))
def test_the_same_answers(answers: dict[str, Any], label: str) -> None:
    ours, kafkas = answers[label], KAFKA[label]
    different = {
        name: (ours["answers"][ours["sets"][name]], kafkas["answers"][number])
        for name, number in kafkas["sets"].items()
        if ours["answers"][ours["sets"][name]] != kafkas["answers"][number]
    }
    if label in DIFFERENCES:
        assert different, f"no difference any more: {label}"
    else:
        assert not different


def codes(answer: Any) -> set[int]:
    """All error codes of an answer."""
    if isinstance(answer, list):
        return set().union(*map(codes, answer)) if answer else set()
    if not isinstance(answer, dict):
        return set()
    return {value for key, value in answer.items() if key == "error_code"} | codes(list(answer.values()))


@pytest.mark.parametrize("label", ["fetch as a replica, version 12", "fetch by id as a replica, version 18"])
def test_a_forged_replica_id_needs_cluster_action(answers: dict[str, Any], label: str) -> None:
    """CVE-2018-1288: the right to read topics is not the right to act as a follower."""
    for name in ("ALL on every TOPIC", "everything but CLUSTER_ACTION on CLUSTER"):
        answer = answers[label]["answers"][answers[label]["sets"][name]]
        assert codes(answer["responses"]) == {29}


def test_the_transactional_id_of_the_request_is_checked(answers: dict[str, Any]) -> None:
    """CVE-2018-17196: a producer may not write with a transactional id that is not its own."""
    question = answers["produce as rival-tx, version 12"]
    assert codes(question["answers"][question["sets"]["everything"]]) == {53}
    question = answers["produce as tx, version 12"]
    assert 53 not in codes(question["answers"][question["sets"]["everything"]])
