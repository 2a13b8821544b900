"""Apache Kafka 4.3.1's configuration: names, types, defaults, and the ranges of its validators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "data"

KAFKA: dict[str, Any] = json.loads((DATA / "kafka-4.3-config.json").read_text(encoding="utf-8"))
DESCRIBED: dict[str, Any] = json.loads((DATA / "kafka-4.3-describe-configs.json").read_text(encoding="utf-8"))
