"""`python -m tests.data.make_transaction_answers`: asks Apache Kafka, and keeps its answers and its records.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.kept_answers import keep_answers
from tests.support.transaction_scenario import SETTINGS, play

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-transactions.json"

if __name__ == "__main__":
    keep_answers(ANSWERS, SETTINGS, play)
