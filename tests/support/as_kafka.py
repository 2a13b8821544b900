"""Holds what Ottla answers to a scenario against what Apache Kafka answered to it (see `kept_answers`)."""

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
    """The answers of Apache Kafka, and where we differ from them on purpose, with the reason."""

    def __init__(self, file: Path, differences: Mapping[str, str] | None = None) -> None:
        self._answers: Answers = json.loads(file.read_text())
        self._differences = {} if differences is None else differences
        self.labels = list(self._answers)

    def check_scenario(self, answers: Answers) -> None:
        """The questions are those that Kafka was asked, in the same order."""
        assert list(answers) == self.labels

    def check(self, answers: Answers, label: str) -> None:
        """The same answer; a difference that has gone has to leave the list, too."""
        if label in self._differences:
            assert answers[label] != self._answers[label], f"no difference any more: {label}"
        else:
            assert answers[label] == self._answers[label]


def played_with_ottla(play: Callable[[str], Answers], settings: Mapping[str, str] | None = None) -> Answers:
    """What a node of its own answers."""
    with cluster(settings=settings) as running:
        return as_kept(play(running.bootstrap))


def as_kept(answers: Answers) -> Answers:
    """As it would be read from a file."""
    read: Answers = json.loads(json.dumps(answers))
    return read
