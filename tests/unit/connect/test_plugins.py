"""Where plug-ins are found, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.api import ConnectError, Connector, Converter, SinkConnector, SourceConnector
from ottla.connect.plugins import Plugins

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
    return Plugins([str(tmp_path), str(tmp_path / "nothing")], own=False)


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
    assert [(one.name, one.kind, one.version) for one in plugins.all()] == [
        ("odd_things.connector.OddThingsConnector", "source", "7")
    ]


def test_one_broken_plugin_stops_nobody(plugins: Plugins) -> None:
    assert "there_is_no_such_module" in plugins.failures["broken_things"]
    assert len(plugins.failures) == 2


def test_what_is_not_there_is_an_error_that_says_what_is(plugins: Plugins) -> None:
    with pytest.raises(ConnectError, match="OddThingsConnector"):
        plugins.connector("Other")
    with pytest.raises(ConnectError):
        plugins.find("OddThings", SinkConnector)  # type: ignore[type-abstract]


def test_our_own_are_found_without_being_told() -> None:
    plugins = Plugins()
    assert plugins.failures == {}
    assert issubclass(plugins.connector("FileStreamSource"), SourceConnector)
    assert issubclass(plugins.connector("org.apache.kafka.connect.file.FileStreamSinkConnector"), Connector)
    assert plugins.find("org.apache.kafka.connect.json.JsonConverter", Converter) is not None  # type: ignore[type-abstract]


def test_full_names_of_earlier_versions_are_known() -> None:
    """A stored configuration may name the package that the plug-in was in before it moved."""
    plugins = Plugins()
    former = plugins.connector("ottla.connect.connectors.databases.jdbc_sink.JdbcSinkConnector")
    assert former is plugins.connector("JdbcSinkConnector")
    assert plugins.find("ottla.connect.converters.json.JsonConverter", Converter) is not None  # type: ignore[type-abstract]
