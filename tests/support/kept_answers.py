"""Files with Apache Kafka's answers to a scenario, for comparison with Ottla's."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.brokers import ApacheKafka

__all__ = ["as_text", "keep_answers"]


def keep_answers(file: Path, settings: Mapping[str, str], play: Callable[[str], Mapping[str, Any]]) -> None:
    """Plays the scenario on a new Apache Kafka, and writes the answers to the file."""
    with tempfile.TemporaryDirectory() as directory, ApacheKafka(Path(directory), settings) as kafka:
        answers = play(kafka.bootstrap)
    file.write_text(as_text(answers))


def as_text(answers: Mapping[str, Any]) -> str:
    """JSON with a line per answer, which makes differences readable."""
    lines = [f"{json.dumps(label)}: {json.dumps(answer)}" for label, answer in answers.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"
