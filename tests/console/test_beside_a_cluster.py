"""`ottla up --console`: a child process that sees the metrics of the nodes, and ends with them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.consoles import Browser


def started(*words: str) -> tuple[subprocess.Popen[str], str, str]:
    """The process, the bootstrap address, and the console's address."""
    command = [sys.executable, "-m", "ottla.cli.main", "up", "--port", "0", "--console", "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    bootstrap = ""
    for line in process.stdout:
        if line.startswith("ready "):
            bootstrap = line.split()[1]
        if line.startswith("console "):
            return process, bootstrap, line.split()[1]
    raise AssertionError("It ended.")


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def next_event(answer: Any) -> Any:
    return next(json.loads(line[6:]) for line in answer if line.startswith(b"data: "))


def test_up_runs_a_console_with_metrics(tmp_path: Path) -> None:
    process, bootstrap, url = started("--data", str(tmp_path))
    browser = Browser(url)
    assert browser.get("/api/session")["features"]["metrics"]
    producer = Producer({"bootstrap.servers": bootstrap})
    with browser.stream("/api/live") as answer:
        for _ in range(60):
            producer.produce("bytes", value=b"x" * 1000)
            producer.flush(60)
            event = next_event(answer)
            if event["bytes_in_per_second"]:
                break
        assert event["bytes_in_per_second"] > 0
    for path in ("/topics/any", "/topics/west.orders"):
        status, page = browser.ask("GET", path, Accept="text/html,*/*")
        assert status == 200
        assert "<!doctype html>" in page.lower()
    assert browser.failure("GET", "/nothing.js") == (404, "NOT_FOUND")
    assert "frame-ancestors 'none'" in browser.headers["Content-Security-Policy"]
    for path in ("/../server.py", "/%2e%2e/server.py", "/..%2fserver.py"):
        assert "ConsoleServer" not in str(browser.ask("GET", path)[1])
    stop(process)
    with pytest.raises(OSError, match=r"refused|reset"):
        urllib.request.urlopen(f"{url}/api/session", timeout=60)


def test_a_secured_cluster_has_a_login(tmp_path: Path) -> None:
    process, _, url = started("--data", str(tmp_path / "data"), "--secure")
    browser = Browser(url)
    assert browser.get("/api/session")["login"]["required"]
    assert browser.failure("GET", "/api/topics") == (401, "NOT_LOGGED_IN")
    properties = dict(
        line.split("=", 1)
        for line in (tmp_path / "data" / "librdkafka.properties").read_text().splitlines()
        if "=" in line
    )
    user, password = properties["sasl.username"], properties["sasl.password"]
    status, session = browser.ask("POST", "/api/login", {"user": user, "password": password})
    assert (status, session["user"]) == (200, f"User:{user}")
    assert session["rights"]["write"]
    browser.token = session["csrf_token"]
    browser.change("POST", "/api/topics", {"name": "first", "partitions": 1})
    stop(process)
