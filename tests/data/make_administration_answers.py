"""`python -m tests.data.make_administration_answers`: asks Apache Kafka, and keeps what it answers.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.administration_scenario import SETTINGS, play
from tests.support.kept_answers import keep_answers

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-administration.json"

if __name__ == "__main__":
    keep_answers(ANSWERS, SETTINGS, play)
