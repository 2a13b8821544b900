"""Which databases a connector accepts is said when it is configured."""

from __future__ import annotations

import pytest

from ottla.connect.api.config_definitions import ConfigError
from ottla.connect.plugins.connectors.databases.jdbc_sink import JdbcSinkConnector
from ottla.connect.plugins.connectors.databases.jdbc_source import JdbcSourceConnector

SETTINGS = {"mode": "bulk", "topic.prefix": "t-", "topics": "t"}


@pytest.mark.parametrize("connector", [JdbcSourceConnector, JdbcSinkConnector])
@pytest.mark.parametrize("url", ["jdbc:mysql://db/shop", "postgresql://db/shop", ""])
def test_a_database_without_a_dialect_is_refused(connector: type, url: str) -> None:
    with pytest.raises(ConfigError, match=r"jdbc:postgresql: or jdbc:sqlite:") as raised:
        connector.config_definitions().parse({**SETTINGS, "connection.url": url})
    assert raised.value.name == "connection.url"


@pytest.mark.parametrize("url", ["jdbc:postgresql://db:5432/shop", "jdbc:sqlite:/srv/shop.db"])
def test_the_others_are_accepted(url: str) -> None:
    settings = JdbcSourceConnector.config_definitions().parse({**SETTINGS, "connection.url": url})
    assert settings.text("connection.url") == url
