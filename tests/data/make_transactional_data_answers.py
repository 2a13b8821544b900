"""`python -m tests.data.make_transactional_data_answers`: asks Apache Kafka, and keeps its answers.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.kept_answers import keep_answers
from tests.support.transactional_data_scenario import SETTINGS, play

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-transactional-data.json"

if __name__ == "__main__":
    keep_answers(ANSWERS, SETTINGS, play)
