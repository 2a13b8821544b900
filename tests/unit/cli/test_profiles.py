"""Profiles: names for clusters."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ottla.cli.app import run
from ottla.cli.session import make_session
from ottla.wire.peers import Endpoint


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("OTTLA_BOOTSTRAP_SERVER", "OTTLA_PROFILE", "OTTLA_CONNECT_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config" / "ottla"


def servers(
    bootstrap: str | None = None, properties_file: str | None = None, profile: str | None = None
) -> tuple[Endpoint, ...]:
    session = make_session(bootstrap, properties_file, profile, as_json=False, timeout_ms=1000)
    return session.settings.bootstrap_servers


def test_the_life_of_profiles(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "list"]) == 0
    assert "There are no profiles." in capsys.readouterr().err
    assert run(["profile", "create", "one", "-b", "a:1", "--connect", "http://a:8083"]) == 0
    assert run(["profile", "create", "two", "-b", "b:2", "--set", "sasl.jaas.config=secret"]) == 0
    assert run(["profile", "create", "two", "-b", "b:3"]) == 1
    assert "--replace" in capsys.readouterr().err
    # The profile that was created last is the current profile.
    assert servers() == (Endpoint("b", 2),)
    assert run(["profile", "use", "one"]) == 0
    assert servers() == (Endpoint("a", 1),)
    capsys.readouterr()
    assert run(["profile", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(profile["name"], profile["isCurrent"], profile["connectUrl"]) for profile in listed] == [
        ("one", True, "http://a:8083"),
        ("two", False, None),
    ]
    assert run(["profile", "show", "two"]) == 0
    shown = capsys.readouterr().out
    assert "sasl.jaas.config=[hidden]" in shown
    assert "secret" not in shown
    assert run(["profile", "delete", "one", "--yes"]) == 0
    assert run(["profile", "show"]) == 1
    assert servers() == (Endpoint("localhost", 9092),)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in home.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert modes[home / "profiles"] == 0o700


def test_a_line_that_names_its_cluster_takes_nothing_from_the_current_profile(tmp_path: Path) -> None:
    # A password of one cluster must not be sent to another.
    run(["profile", "create", "safe", "-b", "a:1", "--set", "client.id=mine"])
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=c:3\n")
    assert servers("b:2") == (Endpoint("b", 2),)
    assert make_session("b:2", None, None, as_json=False, timeout_ms=1000).properties == {}
    assert servers(None, str(file)) == (Endpoint("c", 3),)
    # Unless the profile is named as well.
    session = make_session("b:2", None, "safe", as_json=False, timeout_ms=1000)
    assert (session.settings.bootstrap_servers, session.settings.client_id) == ((Endpoint("b", 2),), "mine")
    assert servers(None, str(file), "safe") == (Endpoint("c", 3),)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["profile", "create", "../x"], 2, "is not the name of a profile"),
        (["profile", "create", "x", "-b", "a:b"], 2, "is not an address"),
        (["profile", "create", "x", "--connect", "localhost"], 2, "is not an address like http"),
        (["profile", "use", "sfae"], 1, "Did you mean 'safe'?"),
        (["topics", "list", "--profile", "sfae"], 1, "There is no profile 'sfae'."),
        (["connect", "list", "--profile", "sfae"], 1, "There is no profile 'sfae'."),
        (["topics", "list", "-b", "a:b"], 2, "is not an address"),
    ],
)
def test_what_is_wrong(words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["profile", "create", "safe"])
    capsys.readouterr()
    assert run(words) == code
    assert said in capsys.readouterr().err


def test_connect_asks_the_worker_of_the_profile(capsys: pytest.CaptureFixture[str]) -> None:
    run(["profile", "create", "x", "--connect", "http://127.0.0.1:1"])
    assert run(["connect", "list"]) == 1
    assert "http://127.0.0.1:1" in capsys.readouterr().err
