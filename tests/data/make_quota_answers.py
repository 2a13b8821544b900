"""`python -m tests.data.make_quota_answers`: sets Apache Kafka quotas, and keeps what it answers.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.kept_answers import keep_answers
from tests.support.quota_scenario import play

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-quotas.json"

if __name__ == "__main__":
    # A broker applies what it has answered a moment later.
    keep_answers(ANSWERS, {}, lambda bootstrap: play(bootstrap, settle=lambda: time.sleep(1)))
