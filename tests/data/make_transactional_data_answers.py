"""`python -m tests.data.make_transactional_data_answers`: asks Apache Kafka, and keeps its answers.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.support.brokers import ApacheKafka
from tests.support.transactional_data_scenario import SETTINGS, play

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-transactional-data.json"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, ApacheKafka(Path(directory), SETTINGS) as kafka:
        answers = play(kafka.bootstrap)
    # One line for each answer, so that a difference can be read.
    lines = [f"{json.dumps(label)}: {json.dumps(answer)}" for label, answer in answers.items()]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
