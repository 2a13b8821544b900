"""`python -m tests.data.make_token_rights_answers`: asks Apache Kafka for delegation tokens under many sets of ACLs.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.brokers import QuickKafka
from tests.support.kept_answers import as_text
from tests.support.sasl_node import SaslNode
from tests.support.token_rights_scenario import SETTINGS, play

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-token-rights.json"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, SaslNode(Path(directory), SETTINGS, kind=QuickKafka) as kafka:
        ANSWERS.write_text(as_text(play(kafka)))
