"""`python -m tests.data.make_acl_answers`: asks Apache Kafka about ACLs, and keeps what it answers.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.acl_scenario import SETTINGS, play
from tests.support.brokers import ApacheKafka
from tests.support.kept_answers import as_text

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-acls.json"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, ApacheKafka(Path(directory), SETTINGS) as kafka:
        log = kafka.log_directory / "__cluster_metadata-0" / f"{0:020}.log"
        ANSWERS.write_text(as_text(play(kafka.bootstrap, kafka.controller, log)))
