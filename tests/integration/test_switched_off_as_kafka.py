"""What is not switched on is refused as Apache Kafka 4.3 refuses it, in every version, by brokers and controllers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.data.make_switched_off_answers import ANSWERS
from tests.support.brokers import OttlaFromFile
from tests.support.switched_off_scenario import play

KAFKA: dict[str, Any] = json.loads(ANSWERS.read_text())

# Where we differ on purpose, and why.
_NO_HANDLER = "a controller of Apache Kafka announces this API, but has nothing that answers it"
DIFFERENCES = {
    f"controller: describe {whose} tokens, version {version}": _NO_HANDLER
    for whose in ("all", "no", "a user's")
    for version in (1, 2, 3)
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with OttlaFromFile(tmp_path_factory.mktemp("node")) as node:
        played: dict[str, Any] = json.loads(json.dumps(play(node.bootstrap, node.controller)))
    return played


def test_the_scenario_is_the_one_kafka_was_asked(answers: dict[str, Any]) -> None:
    assert list(answers) == list(KAFKA)


@pytest.mark.parametrize("label", KAFKA)
def test_the_same_answer(answers: dict[str, Any], label: str) -> None:
    if label in DIFFERENCES:
        assert answers[label] != KAFKA[label], f"no difference any more: {label}"
    else:
        assert answers[label] == KAFKA[label]
