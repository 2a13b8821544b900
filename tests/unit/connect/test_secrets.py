"""References in configurations: where they are looked up, what may be shown, and that the values stay secret."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ottla.connect.api import ConfigProvider, ConnectError
from ottla.connect.api.config_definitions import ConfigError
from ottla.connect.configuration.secrets import Mask, hide_in_logs, make_providers, resolve
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.plugins import Plugins

# A worker that offers its three providers to connectors.
OFFERED = make_providers({"config.providers": "file,env,dir"})


class Fixed(ConfigProvider):
    def configure(self, config: Mapping[str, str]) -> None:
        self.value = config["value"]

    def get(self, path: str, keys: Sequence[str]) -> Mapping[str, str]:
        return {key: f"{path}/{key}/{self.value}" for key in keys}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "db.properties").write_text("user=ada\npassword = s3cret value\n")
    (tmp_path / "token").write_text("abc.def")
    return tmp_path


def test_references_become_what_they_name(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TEST_HOST", "db.example")
    config = {
        "url": "jdbc:postgresql://${env:OTTLA_TEST_HOST}/shop",
        "password": f"${{file:{secrets}/db.properties:password}}",
        "token": f"Bearer ${{dir:{secrets}:token}}",
        "both": f"${{file:{secrets}/db.properties:user}}@${{env:OTTLA_TEST_HOST}}",
        "plain": "no reference",
        "template": "${topic}-${timestamp}",
        "unknown": "${vault:a:b}",
    }
    assert resolve(config, OFFERED) == {
        "url": "jdbc:postgresql://db.example/shop",
        "password": "s3cret value",
        "token": "Bearer abc.def",
        "both": "ada@db.example",
        "plain": "no reference",
        "template": "${topic}-${timestamp}",
        "unknown": "${vault:a:b}",
    }


@pytest.mark.parametrize(
    "reference", ["${file:%s/none:x}", "${file:%s/db.properties:none}", "${dir:%s:none}", "${env:OTTLA_NONE}"]
)
def test_what_is_not_there_is_an_error_that_names_the_setting(secrets: Path, reference: str) -> None:
    text = reference % secrets if "%s" in reference else reference
    with pytest.raises(ConnectError):
        resolve({"password": text}, OFFERED)


def test_a_directory_gives_only_its_own_files(secrets: Path) -> None:
    with pytest.raises(ConnectError):
        resolve({"password": f"${{dir:{secrets}/x:../token}}"}, OFFERED)


def test_allowed_paths_bound_what_can_be_read(secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "x.properties").write_text("a=b")
    (secrets / "link.properties").symlink_to(outside / "x.properties")
    providers = make_providers({"config.providers": "file", "config.providers.file.param.allowed.paths": str(secrets)})
    assert resolve({"u": f"${{file:{secrets}/db.properties:user}}"}, providers) == {"u": "ada"}
    for path in (outside / "x.properties", secrets / ".." / outside.name / "x.properties", secrets / "link.properties"):
        with pytest.raises(ConnectError, match="allowed"):
            resolve({"u": f"${{file:{path}:a}}"}, providers)


def test_a_provider_by_its_java_name_and_one_of_ones_own() -> None:
    plugins = Plugins()
    plugins.add(Fixed)
    config = {
        "config.providers": "mine, f",
        "config.providers.mine.class": "Fixed",
        "config.providers.mine.param.value": "v",
        "config.providers.f.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    assert resolve({"a": "${mine:p:k}"}, make_providers(config, plugins)) == {"a": "p/k/v"}


def test_references_in_values_are_followed_but_not_without_end(tmp_path: Path) -> None:
    path = tmp_path / "loop.properties"
    path.write_text(f"a=${{file:{path}:b}}\nb=end\nself=${{file:{path}:self}}\n")
    assert resolve({"x": f"${{file:{path}:a}}"}, OFFERED) == {"x": "end"}
    with pytest.raises(ConnectError, match="deep"):
        resolve({"x": f"${{file:{path}:self}}"}, OFFERED)


def test_resolved_values_are_hidden_in_text_and_logs(secrets: Path, caplog: pytest.LogCaptureFixture) -> None:
    mask = Mask()
    resolve({"p": f"${{file:{secrets}/db.properties:password}}"}, OFFERED, mask)
    assert mask.hide("login with s3cret value failed") == "login with ******** failed"
    logger = logging.getLogger("ottla.connect.test")
    end = hide_in_logs(mask)
    try:
        raise ValueError("refused: s3cret value")
    except ValueError:
        logger.exception("the password %s is wrong", "s3cret value")
    end()
    assert "s3cret" not in caplog.text
    assert "the password ******** is wrong" in caplog.text


def test_connectors_read_nothing_that_the_worker_does_not_offer(secrets: Path) -> None:
    """A connector comes from another machine, and a reference reads files of this one."""
    with pytest.raises(ConnectError, match=r"password refers to .* set config\.providers=file"):
        resolve({"password": f"${{file:{secrets}/db.properties:password}}"}, make_providers({}))
    with pytest.raises(ConnectError, match="does not offer"):
        resolve({"password": "${env:HOME}"}, make_providers({"config.providers": "file"}))


def test_the_file_of_a_worker_may_use_references(secrets: Path) -> None:
    text = f"${{file:{secrets}/db.properties:password}}"
    config = WorkerConfig(
        {
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            "offset.storage.file.filename": "offsets",
            "some.password": text,
        },
        distributed=False,
    )
    assert config.original["some.password"] == "s3cret value"
    assert config.mask.hide("it was s3cret value") == "it was ********"
    with pytest.raises(ConfigError, match="cannot be read"):
        WorkerConfig({"some.password": "${file:/no.such.file:x}"}, distributed=False)
