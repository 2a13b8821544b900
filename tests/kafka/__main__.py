"""`python -m tests.kafka`: run Kafka's integration tests and compare with what passes on Apache Kafka.

Without arguments it runs the classes of `expected.txt`, those that must pass as in the baseline at this stage. A group
of `groups.txt` or single classes may be named instead; then nothing but the comparison is asked, and classes beyond
`expected.txt` are reported without failing the run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.support import jars
from tests.support.java import PROGRAMS, compiled, java_command, unavailable_reason

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
CLASS_TIMEOUT_S = 900

# One line of the console's test feed: "JUnit Jupiter > SomeTest > method(ClusterInstance) > method [1] :: SUCCESSFUL".
FEED_LINE = re.compile(r"^JUnit Jupiter > (?P<test_class>\S+) > (?:.* > )?(?P<test>.+?) :: (?P<state>[A-Z]+)$")


def main() -> int:
    options = parse_arguments()
    if reason := unavailable_reason(jars.COMPAT):
        print(f"compat: skipped, {reason}")
        return 0
    expected = read_list(HERE / "expected.txt")
    groups = read_groups()
    wanted = [name for item in options.what or expected for name in groups.get(item, [item])]
    baseline = read_baseline()
    results = run(wanted, launcher=options.launcher)
    return report(wanted, results, baseline=baseline, expected=expected)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka")
    parser.add_argument("what", nargs="*", help="groups of groups.txt or classes (default: expected.txt)")
    parser.add_argument("--launcher", default="ottla", help="ottla, kafka, or the path of another launcher")
    return parser.parse_args()


def run(classes: list[str], *, launcher: str) -> dict[str, dict[str, str]]:
    """All classes in one JVM; the answer is class -> test -> state as the console reports it."""
    program = HERE / f"{launcher}-launcher" if "/" not in launcher else Path(launcher).resolve()
    sources = sorted((HERE / "src").rglob("*.java"))
    class_path = f"{compiled(sources, jar_set=jars.COMPAT)}:{HERE / 'src'}:{jars.class_path(jars.COMPAT)}"
    command = [java_command(), "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}", f"-Doutside.launcher={program}"]
    command += ["-cp", class_path, "org.junit.platform.console.ConsoleLauncher", "execute"]
    command += ["--config", "junit.jupiter.extensions.autodetection.enabled=true"]
    command += ["--config", "junit.jupiter.extensions.autodetection.exclude=org.apache.kafka.*"]
    command += ["--disable-banner", "--disable-ansi-colors", "--details=testfeed"]
    for name in classes:
        command += ["--select-class", name]
    # The launchers are scripts of this very Python.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    results: dict[str, dict[str, str]] = defaultdict(dict)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            found = FEED_LINE.match(line.rstrip())
            if found and found["state"] != "STARTED":
                results[found["test_class"]][found["test"]] = found["state"]
    return results


def report(
    wanted: list[str], results: dict[str, dict[str, str]], *, baseline: dict[str, set[str]], expected: list[str]
) -> int:
    not_yet = dict(line.split(": ", 1) for line in read_list(HERE / "not-yet.txt"))
    print(f"\n{'class':44} {'baseline':>8} {'passed':>7} {'missing':>8}")
    failed = False
    for full_name in wanted:
        name = full_name.rsplit(".", 1)[1]
        passed = {test for test, state in results.get(name, {}).items() if state == "SUCCESSFUL"}
        missing = sorted(baseline.get(name, set()) - passed)
        demanded = [test for test in missing if f"{name} {test}" not in not_yet]
        is_expected = full_name in expected
        # A class that ran nothing proves nothing, whatever the baseline says.
        bad = is_expected and (demanded or not passed)
        failed |= bool(bad)
        note = "  <- must pass" if bad else "" if is_expected else "  (not yet expected)"
        print(f"{name:44} {len(baseline.get(name, set())):8} {len(passed):7} {len(missing):8}{note}")
        for test in missing:
            reason = not_yet.get(f"{name} {test}")
            print(f"    missing: {test}{f' (not yet: {reason})' if reason else ''}")
    return 1 if failed else 0


def read_list(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def read_groups() -> dict[str, list[str]]:
    lines = (line.split() for line in read_list(HERE / "groups.txt"))
    return {name: classes for name, *classes in lines}


def read_baseline() -> dict[str, set[str]]:
    tests: dict[str, set[str]] = defaultdict(set)
    for file in ("requests.txt", "tools.txt", "transactions.txt", "clusters.txt"):
        for line in read_list(HERE / "baseline" / file):
            name, test = line.split(" ", 1)
            tests[name].add(test)
    return tests


if __name__ == "__main__":
    sys.exit(main())
