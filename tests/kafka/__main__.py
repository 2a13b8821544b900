"""`python -m tests.kafka`: run Kafka's integration tests and compare with what passes on Apache Kafka.

Without arguments it runs the classes of `expected.txt`, those that must pass as in the baseline at this stage. A group
of `groups.txt` or single classes may be named instead; then nothing but the comparison is asked, and classes beyond
`expected.txt` are reported without failing the run.
"""

from __future__ import annotations

import argparse
import sys

from tests.kafka.harness import (
    HERE,
    WITH_KERBEROS,
    Baseline,
    Results,
    class_name,
    demanded,
    passed,
    read_baseline,
    read_groups,
    read_list,
    read_not_yet,
    run,
)
from tests.support import jars, kerberos
from tests.support.java import unavailable_reason

__all__ = ["main"]


def main() -> int:
    options = parse_arguments()
    if reason := unavailable_reason(jars.COMPAT):
        print(f"compat: skipped, {reason}")
        return 0
    expected = read_list(HERE / "expected.txt")
    groups = read_groups()
    wanted = [name for item in options.what or expected for name in groups.get(item, [item])]
    no_realm = kerberos.missing_reason()
    left_out = [name for name in wanted if no_realm and name in WITH_KERBEROS]
    wanted = [name for name in wanted if name not in left_out]
    results = run(wanted, launcher=options.launcher) if wanted else {}
    code = report(wanted, results, baseline=read_baseline(), expected=expected)
    for name in left_out:
        print(f"{class_name(name)}: not run, {no_realm}")
    return code


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka")
    parser.add_argument("what", nargs="*", help="groups of groups.txt or classes (default: expected.txt)")
    parser.add_argument("--launcher", default="ottla", help="ottla, kafka, or the path of another launcher")
    return parser.parse_args()


def report(wanted: list[str], results: Results, *, baseline: Baseline, expected: list[str]) -> int:
    not_yet = read_not_yet()
    print(f"\n{'class':44} {'baseline':>8} {'passed':>7} {'missing':>8}")
    failed = False
    for full_name in wanted:
        name, successes = class_name(full_name), passed(results, full_name)
        in_baseline = baseline.get(name, set())
        missing = sorted(in_baseline - successes)
        is_expected = full_name in expected
        # A class that ran no test proves nothing, whatever the baseline says.
        is_bad = is_expected and (not successes or not demanded(full_name, baseline) <= successes)
        failed |= bool(is_bad)
        note = "  <- must pass" if is_bad else "" if is_expected else "  (not yet expected)"
        print(f"{name:44} {len(in_baseline):8} {len(successes):7} {len(missing):8}{note}")
        for test in missing:
            reason = not_yet.get(f"{name} {test}")
            print(f"    missing: {test}{f' (not yet: {reason})' if reason else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
