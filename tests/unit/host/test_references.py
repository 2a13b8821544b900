"""References in a node's own file: what they become, what is refused, and that no value is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.host.references import FILE_BYTES_MAX, own_config, resolve_own_file
from ottla.model.config import BrokerConfig, ConfigError
from ottla.model.config.dynamic import check_dynamic_change, check_dynamic_values
from ottla.model.config.effective import describe_broker
from ottla.model.config.references import ReferenceFailed
from ottla.model.errors import KafkaError

NODE = BrokerConfig.embedded().static
KAFKA = "org.apache.kafka.common.config.provider"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("password=planted\nhost = 127.0.0.1\nnested=${env:OTTLA_TEST_SECRET}\n")
    (tmp_path / "token").write_text("abc")
    return path


def test_references_become_what_they_name(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TEST_SECRET", "from the environment")
    properties = {
        "one": f"${{file:{secrets}:password}}",
        "two": f"user=${{env:OTTLA_TEST_SECRET}} at ${{file:{secrets}:host}}",
        "three": f"${{dir:{secrets.parent}:token}}",
        "four": f"${{file:{secrets}:nested}}",
        "other": "${topic} ${vault:a:b}",
    }
    resolved = resolve_own_file(properties)
    assert resolved.properties == {
        "one": "planted",
        "two": "user=from the environment at 127.0.0.1",
        "three": "abc",
        "four": "from the environment",
        "other": "${topic} ${vault:a:b}",
    }
    assert resolved.hidden == {"one", "two", "three", "four"}
    assert "planted" in resolved.values


def test_lines_of_kafkas_own_file_are_understood(secrets: Path) -> None:
    properties = {
        "config.providers": "vault",
        "config.providers.vault.class": f"{KAFKA}.FileConfigProvider",
        "config.providers.vault.param.allowed.paths": str(secrets.parent),
        "x": f"${{vault:{secrets}:password}}",
    }
    assert resolve_own_file(properties).properties == {"x": "planted"}
    outside = {**properties, "config.providers.vault.param.allowed.paths": "/nowhere"}
    with pytest.raises(ReferenceFailed, match=r"not in allowed\.paths"):
        resolve_own_file(outside)
    with pytest.raises(ReferenceFailed, match="FileConfigProvider"):
        resolve_own_file({**properties, "config.providers.vault.class": "com.example.Vault"})


def test_the_environment_may_be_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TEST_SECRET", "planted")
    properties = {
        "config.providers": "env",
        "config.providers.env.param.allowlist.pattern": "PUBLIC_.*",
        "x": "${env:OTTLA_TEST_SECRET}",
    }
    with pytest.raises(ReferenceFailed, match="not set"):
        resolve_own_file(properties)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${file:%s/none:x}", "cannot be read: No such file"),
        ("${file:%s/secrets.properties:none}", "no line for none"),
        ("${dir:%s:../token}", "PATH:FILE"),
        ("${env:OTTLA_NONE}", "not set"),
        ("${env:a:OTTLA_NONE}", "no paths"),
        ("${file:%s/large:x}", "larger than"),
    ],
)
def test_what_is_not_there_is_an_error_that_names_the_setting(secrets: Path, reference: str, reason: str) -> None:
    (secrets.parent / "large").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    text = reference % secrets.parent if "%s" in reference else reference
    with pytest.raises(ConfigError, match=reason) as failure:
        own_config({**NODE, "ssl.key.password": text})
    assert failure.value.message.startswith("ssl.key.password refers to ${")


def test_references_that_never_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "loop.properties"
    path.write_text(f"a=${{file:{path}:a}}\n")
    with pytest.raises(ReferenceFailed, match="nested"):
        resolve_own_file({"x": f"${{file:{path}:a}}"})


def test_an_error_about_a_value_does_not_show_it(secrets: Path) -> None:
    with pytest.raises(ConfigError) as failure:
        own_config({**NODE, "num.partitions": f"${{file:{secrets}:password}}"})
    assert "planted" not in failure.value.message
    assert "num.partitions" in failure.value.message


def test_a_value_that_contains_another_is_hidden_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "secrets.properties"
    path.write_text("short=abc\nlong=abcdef\n")
    with pytest.raises(ConfigError) as failure:
        own_config({**NODE, "super.users": f"${{file:{path}:short}}", "num.partitions": f"${{file:{path}:long}}"})
    assert "def" not in failure.value.message


def test_describe_configs_does_not_show_what_a_reference_stands_for(secrets: Path) -> None:
    config = own_config({**NODE, "super.users": f"${{file:{secrets}:password}}"})
    assert config.static["super.users"] == "planted"
    for known in (config, config.with_dynamic(dynamic={"num.io.threads": "4"})):
        (entry,) = [entry for entry in describe_broker(known) if entry.name == "super.users"]
        assert entry.value is None
        assert entry.is_sensitive
        assert "planted" not in repr(list(describe_broker(known)))


def test_clients_have_no_references(secrets: Path) -> None:
    """What a client sets while the node runs stays text: it could read any file of the node."""
    config = own_config(NODE)
    text = f"${{file:{secrets}:password}}"
    changed = check_dynamic_change(config, dynamic={"broker.rack.unknown": text})
    assert changed.dynamic == {"broker.rack.unknown": text}
    with pytest.raises(KafkaError, match="never in values from clients"):
        check_dynamic_values({"config.providers": "file"})
