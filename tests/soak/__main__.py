"""`python -m tests.soak --hours 1`, or `make soak HOURS=1`: a week of a cluster's life in an hour."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.soak.report import table, write_chart, write_json
from tests.soak.soak import soak

BUILD = Path(__file__).parents[2] / "build" / "soak"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="the duration; fractions are allowed")
    parser.add_argument("--rate", type=int, default=600, help="records per second of the steady load")
    options = parser.parse_args()
    began = time.monotonic()
    result = soak(
        options.hours * 3600, rate=options.rate, logs=BUILD / "logs", on_tenth=lambda text: print(text, flush=True)
    )
    print(table(result.verdicts))
    for name, count in sorted(result.counts.items()):
        print(f"{count:>10} {name}")
    write_json(BUILD / "soak.json", result.verdicts, result.counts, result.findings)
    write_chart(BUILD / "soak.svg", result.verdicts)
    for sentence in [*result.findings, *(str(verdict) for verdict in result.verdicts if not verdict.is_flat)]:
        print(f"FAILED: {sentence}")
    print(f"{(time.monotonic() - began) / 60:.1f} minutes; the numbers and a chart are in {BUILD.name} under build")
    sys.exit(0 if result.is_good else 1)


if __name__ == "__main__":
    main()
