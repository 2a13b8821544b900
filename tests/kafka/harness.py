"""Runs classes of Apache Kafka's integration tests in one JVM, and knows what passes on Apache Kafka itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.support import jars
from tests.support.java import PROGRAMS, compiled, java_command

__all__ = [
    "FEED_LINE",
    "HERE",
    "WITH_KERBEROS",
    "Baseline",
    "Results",
    "class_name",
    "demanded",
    "passed",
    "read_baseline",
    "read_groups",
    "read_list",
    "read_not_yet",
    "run",
]

HERE = Path(__file__).resolve().parent

# Their tests start a key distribution center.
WITH_KERBEROS = frozenset({"kafka.api.SaslSslAdminIntegrationTest", "kafka.api.SaslGssapiSslEndToEndAuthorizationTest"})

# One line of the console's test feed: "JUnit Jupiter > SomeTest > method(ClusterInstance) > method [1] :: SUCCESSFUL".
FEED_LINE = re.compile(r"^JUnit Jupiter > (?P<test_class>\S+) > (?:.* > )?(?P<test>.+?) :: (?P<state>[A-Z]+)$")

BASELINES = (
    "requests.txt",
    "tools.txt",
    "transactions.txt",
    "clusters.txt",
    "security.txt",
    "secured.txt",
    "clients.txt",
)

Results = dict[str, dict[str, str]]
"""Class -> test -> state as the console reports it; the class without its package."""
Baseline = dict[str, set[str]]
"""Class -> tests that pass on Apache Kafka."""


def run(classes: list[str], *, launcher: str) -> Results:
    """Runs all classes in one JVM; what it prints is printed here."""
    program = HERE / f"{launcher}-launcher" if "/" not in launcher else Path(launcher).resolve()
    sources = sorted((HERE / "src").rglob("*.java"))
    class_path = f"{compiled(sources, jar_set=jars.COMPAT)}:{HERE / 'src'}:{jars.class_path(jars.COMPAT)}"
    command = [java_command(), "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}", f"-Doutside.launcher={program}"]
    # A realm of Kerberos for each test, in one JVM.
    command += ["--add-exports", "java.security.jgss/sun.security.krb5=ALL-UNNAMED"]
    command += ["-cp", class_path, "org.junit.platform.console.ConsoleLauncher", "execute"]
    command += ["--config", "junit.jupiter.extensions.autodetection.enabled=true"]
    command += ["--config", "junit.jupiter.extensions.autodetection.exclude=org.apache.kafka.*"]
    # A test that waits for what happens in a broker's memory would wait for ever.
    for kind in ("test", "testtemplate"):
        command += ["--config", f"junit.jupiter.execution.timeout.{kind}.method.default=180 s"]
    command += ["--disable-banner", "--disable-ansi-colors", "--details=testfeed"]
    for name in classes:
        command += ["--select-class", name]
    # The launchers are scripts of this very Python.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    results: Results = defaultdict(dict)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            match = FEED_LINE.match(line.rstrip())
            if match and match["state"] != "STARTED":
                results[match["test_class"]][match["test"]] = match["state"]
    return results


def class_name(full_name: str) -> str:
    return full_name.rsplit(".", 1)[1]


def passed(results: Results, full_name: str) -> set[str]:
    """The tests of a class that passed."""
    return {test for test, state in results.get(class_name(full_name), {}).items() if state == "SUCCESSFUL"}


def demanded(full_name: str, baseline: Baseline) -> set[str]:
    """The tests of a class that must pass: those that pass on Apache Kafka, without those of `not-yet.txt`."""
    name, not_yet = class_name(full_name), read_not_yet()
    return {test for test in baseline.get(name, set()) if f"{name} {test}" not in not_yet}


def read_not_yet() -> dict[str, str]:
    """Class and test -> why it cannot pass yet."""
    return dict(line.split(": ", 1) for line in read_list(HERE / "not-yet.txt"))


def read_list(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def read_groups() -> dict[str, list[str]]:
    lines = (line.split() for line in read_list(HERE / "groups.txt"))
    return {name: classes for name, *classes in lines}


def read_baseline() -> Baseline:
    tests: Baseline = defaultdict(set)
    for file in BASELINES:
        for line in read_list(HERE / "baseline" / file):
            name, test = line.split(" ", 1)
            tests[name].add(test)
    return tests
