"""`python -m tests.data.make_repeat_answers`: requests with repeated names to Apache Kafka, and its answers.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.brokers import ApacheKafka
from tests.support.kept_answers import as_text
from tests.support.repeats_scenario import play

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-repeats.json"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, ApacheKafka(Path(directory)) as kafka:
        ANSWERS.write_text(as_text(play(kafka.bootstrap)))
