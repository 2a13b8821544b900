"""Compares Ottla's answers to a scenario with the stored answers of Apache Kafka (see `kept_answers`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ottla.testing import cluster

__all__ = ["Answers", "KafkasAnswers", "as_kept", "played_with_ottla"]

Answers = Mapping[str, Any]
"""By the label of the question."""


class KafkasAnswers:
    """The answers of Apache Kafka, and the labels of intended differences with their reasons."""

    def __init__(self, file: Path, differences: Mapping[str, str] | None = None) -> None:
        self._answers: Answers = json.loads(file.read_text())
        self._differences = {} if differences is None else differences
        self.labels = list(self._answers)

    def check_scenario(self, answers: Answers) -> None:
        """Checks that the scenario sent the same requests as to Kafka, in the same order."""
        assert list(answers) == self.labels

    def check(self, answers: Answers, label: str) -> None:
        """Checks that the answers are equal, or that a listed difference still exists."""
        if label in self._differences:
            assert answers[label] != self._answers[label], f"no difference any more: {label}"
        else:
            assert answers[label] == self._answers[label]


def played_with_ottla(play: Callable[[str], Answers], settings: Mapping[str, str] | None = None) -> Answers:
    """The answers of a new Ottla node."""
    with cluster(settings=settings) as running:
        return as_kept(play(running.bootstrap))


def as_kept(answers: Answers) -> Answers:
    """The answers as they would be read from a file."""
    read: Answers = json.loads(json.dumps(answers))
    return read
