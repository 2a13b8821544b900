"""`python -m tests.data.make_switched_off_answers`: asks Apache Kafka for what it has not switched on.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.brokers import ApacheKafka
from tests.support.kept_answers import as_text
from tests.support.switched_off_scenario import FEATURES, play

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-switched-off.json"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, ApacheKafka(Path(directory), features=FEATURES) as kafka:
        ANSWERS.write_text(as_text(play(kafka.bootstrap, kafka.controller)))
