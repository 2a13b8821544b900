"""`python -m tests.data.make_sasl_answers`: logs in to Apache Kafka in every way, and keeps what it answers.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.brokers import QuickKafka
from tests.support.kept_answers import as_text
from tests.support.sasl_node import SaslNode
from tests.support.sasl_scenario import SETTINGS, play

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-sasl.json"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, SaslNode(Path(directory), SETTINGS, kind=QuickKafka) as kafka:
        ANSWERS.write_text(as_text(play(kafka)))
