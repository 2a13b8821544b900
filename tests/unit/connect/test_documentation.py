"""The connector page documents all declared settings, and every plug-in has a description."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ottla.connect.api import Connector, Delivery
from ottla.connect.plugins import Plugins

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools/generate_connect_docs.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_plug_in_and_setting_is_documented() -> None:
    plugins = Plugins()
    installed = plugins.all()
    assert not plugins.failures
    for found_plugin in installed:
        assert found_plugin.plugin.__doc__, found_plugin.name
        for definition in found_plugin.plugin.config_definitions():
            assert definition.documentation.endswith("."), f"{found_plugin.name}: {definition.name}"


def test_every_connector_says_what_it_promises() -> None:
    claims = {
        found_plugin.plugin.__name__: found_plugin.plugin.claim
        for found_plugin in Plugins().all()
        if issubclass(found_plugin.plugin, Connector)
    }
    assert all(claim.condition for claim in claims.values())
    assert claims["DirectorySinkConnector"].delivery is Delivery.EXACTLY_ONCE
    assert claims["HttpSinkConnector"].delivery is Delivery.AT_LEAST_ONCE
