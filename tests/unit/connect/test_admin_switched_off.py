"""`admin.listeners` without an address switches the requests below /admin off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.worker import Worker
from tests.support.connect_workers import plugins_for_tests, worker_properties


@pytest.mark.parametrize(("settings", "has_admin"), [({}, True), ({"admin.listeners": ""}, False)])
def test_levels_of_loggers(tmp_path: Path, settings: dict[str, str], *, has_admin: bool) -> None:
    properties = {**worker_properties("127.0.0.1:1", tmp_path), **settings}
    unused: Any = None
    worker = Worker(WorkerConfig(properties, distributed=False), engine=unused, plugins=plugins_for_tests())
    paths = {path for _, path, _ in worker._rest._routes()}
    assert "/connectors" in paths
    assert ("/admin/loggers" in paths) is has_admin
