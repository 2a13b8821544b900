"""Discovery and names of plug-ins."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from ottla.connect.api import ConnectError, Connector, Converter, SinkConnector, SourceConnector
from ottla.connect.plugins import Plugins
from ottla.connect.plugins.discovery import GROUPS

ROOT = Path(__file__).resolve().parents[3]

PLUGIN = """
from ottla.connect.api import SinkConnector, SourceConnector

class OddThingsConnector(SourceConnector):
    version = "7"
    aliases = ("org.example.OddThingsSourceConnector",)
    def plan(self, config, max_tasks):
        return []

class _Hidden(OddThingsConnector):
    pass

class Unfinished(SinkConnector):
    pass
"""


@pytest.fixture
def plugins(tmp_path: Path) -> Plugins:
    (tmp_path / "odd_things").mkdir()
    (tmp_path / "odd_things" / "__init__.py").write_text("")
    (tmp_path / "odd_things" / "connector.py").write_text(PLUGIN)
    (tmp_path / "broken_things.py").write_text("import there_is_no_such_module")
    return Plugins([str(tmp_path), str(tmp_path / "nothing")], installed=False)


@pytest.mark.parametrize(
    "name",
    [
        "odd_things.connector.OddThingsConnector",
        "OddThingsConnector",
        "OddThings",
        "org.example.OddThingsSourceConnector",
        "OddThingsSourceConnector",
        "OddThingsSource",
    ],
)
def test_a_plugin_has_several_names(plugins: Plugins, name: str) -> None:
    assert plugins.connector(name).version == "7"


def test_only_what_can_be_used_is_listed(plugins: Plugins) -> None:
    assert [(found_plugin.name, found_plugin.kind, found_plugin.version) for found_plugin in plugins.all()] == [
        ("odd_things.connector.OddThingsConnector", "source", "7")
    ]


def test_a_broken_plugin_does_not_stop_the_others(plugins: Plugins) -> None:
    assert "there_is_no_such_module" in plugins.failures["broken_things"]
    assert len(plugins.failures) == 2


def test_what_is_not_there_is_an_error_that_says_what_is(plugins: Plugins) -> None:
    with pytest.raises(ConnectError, match="OddThingsConnector"):
        plugins.connector("Other")
    with pytest.raises(ConnectError):
        plugins.find("OddThings", SinkConnector)  # type: ignore[type-abstract]


def test_our_own_are_found_without_being_told() -> None:
    plugins = Plugins()
    assert issubclass(plugins.connector("FileStreamSource"), SourceConnector)
    assert plugins.failures == {}
    assert issubclass(plugins.connector("org.apache.kafka.connect.file.FileStreamSinkConnector"), Connector)
    assert plugins.find("org.apache.kafka.connect.json.JsonConverter", Converter) is not None  # type: ignore[type-abstract]


def test_full_names_of_earlier_versions_are_known() -> None:
    """A stored configuration may name the package that the plug-in was in before it moved."""
    plugins = Plugins()
    former = plugins.connector("ottla.connect.connectors.databases.jdbc_sink.JdbcSinkConnector")
    assert former is plugins.connector("JdbcSinkConnector")
    assert plugins.find("ottla.connect.converters.json.JsonConverter", Converter) is not None  # type: ignore[type-abstract]


class Distributions:
    """Distributions as `pip install --target` leaves them, in a directory of the import path."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def install(self, name: str, entry_points: str, **modules: str) -> None:
        for module, text in modules.items():
            (self._directory / f"{module}.py").write_text(text)
        metadata = self._directory / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distributions:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Distributions(tmp_path)


def test_a_plugin_of_another_distribution_is_imported_when_it_is_named(distributions: Distributions) -> None:
    points = "[ottla.connectors]\nodd = lazily_odd:OddThingsConnector\nother = never_imported:Other\n"
    distributions.install("lazily-odd", points, lazily_odd=PLUGIN, never_imported="raise RuntimeError")
    plugins = Plugins()
    assert "lazily_odd" not in sys.modules
    assert plugins.connector("odd").version == "7"
    for name in ("lazily_odd.OddThingsConnector", "OddThingsConnector"):
        assert Plugins().connector(name) is plugins.connector("odd")
    assert plugins.failures == {}
    assert "never_imported" not in sys.modules
    # An alias is an attribute of the class: all connectors are imported, and one of them fails.
    assert plugins.connector("org.example.OddThingsSourceConnector") is plugins.connector("odd")
    assert plugins.failures == {"never_imported:Other": "RuntimeError: "}


def test_an_entry_point_may_name_a_module(distributions: Distributions) -> None:
    distributions.install("whole-module", "[ottla.connect]\nany = whole_module\n", whole_module=PLUGIN)
    assert Plugins().connector("OddThings").__module__ == "whole_module"


def test_an_entry_point_in_the_wrong_group_is_left_out(distributions: Distributions) -> None:
    points = "[ottla.converters]\nodd = wrong_group:OddThingsConnector\nabstract = wrong_group:Unfinished\n"
    distributions.install("wrong-group", points, wrong_group=PLUGIN)
    plugins = Plugins()
    assert "wrong_group" not in {found_plugin.plugin.__module__ for found_plugin in plugins.all()}
    assert sorted(plugins.failures) == ["wrong_group:OddThingsConnector", "wrong_group:Unfinished"]


def test_every_plugin_of_ours_is_registered_in_the_group_of_its_kind() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    registered = {
        (value.replace(":", "."), kind)
        for group, kind in GROUPS.items()
        for value in project["entry-points"].get(group, {}).values()
    }
    scanned = Plugins(installed=False)
    for package in ("connectors", "converters", "transforms", "predicates", "providers"):
        scanned._scan_package(f"ottla.connect.plugins.{package}")
    assert {name for name, _ in registered} == {found_plugin.name for found_plugin in scanned.all()}
    assert all(issubclass(scanned.any(name), kind) for name, kind in registered)


def test_a_source_tree_without_metadata_has_our_own_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    assert issubclass(Plugins().connector("FileStreamSource"), SourceConnector)
