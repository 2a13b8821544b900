"""The table of handlers is what is advertised: it has to be true."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import ottla.broker.apis
from ottla.broker.apis import HANDLERS
from ottla.wire.api import API_SPECS, ApiKey


@pytest.mark.parametrize("api_key", sorted(HANDLERS))
def test_every_entry_has_a_handler_and_the_versions_of_kafka(api_key: int) -> None:
    spec = HANDLERS[api_key]
    api = API_SPECS[ApiKey(api_key)]
    module = import_module(f"ottla.broker.apis.{spec.module}")
    assert callable(module.handle)
    assert (spec.min_version, spec.max_version) == (api.request_min_version, api.request_max_version)
    assert spec.module == api.module.rpartition(".")[2]
    assert "broker" in api.listeners
    assert f"(key {api_key})" in (module.__doc__ or "")


def test_every_handler_is_in_the_table() -> None:
    directory = Path(ottla.broker.apis.__file__).parent
    modules = {
        path.stem
        for path in directory.glob("*.py")
        if path.stem != "__init__" and hasattr(import_module(f"ottla.broker.apis.{path.stem}"), "handle")
    }
    assert modules == {spec.module for spec in HANDLERS.values()}
