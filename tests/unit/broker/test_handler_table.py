"""The handler tables match the advertised APIs, and every handler module exports one value."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import ottla.broker.apis
from ottla.broker.apis import CONTROLLER_HANDLERS, FORWARDABLE, HANDLERS, TELEMETRY_HANDLERS, HandlerSpec, load
from ottla.wire.api import API_SPECS, ApiKey

# A controller's listener serves Fetch for the metadata partition only, with a separate handler.
SEPARATE = {"fetch_metadata_log": "fetch"}


@pytest.mark.parametrize(
    ("listener", "api_key", "spec"),
    [
        *(("broker", api_key, spec) for api_key, spec in sorted({**HANDLERS, **TELEMETRY_HANDLERS}.items())),
        *(("controller", api_key, spec) for api_key, spec in sorted(CONTROLLER_HANDLERS.items())),
    ],
)
def test_every_entry_has_a_handler_and_the_versions_of_kafka(listener: str, api_key: int, spec: HandlerSpec) -> None:
    api = API_SPECS[ApiKey(api_key)]
    assert callable(load(api_key, spec).handle)
    assert (spec.min_version, spec.max_version) == (api.request_min_version, api.request_max_version)
    assert listener in api.listeners
    if spec.module != "switched_off":
        assert SEPARATE.get(spec.module, spec.module) == api.module.rpartition(".")[2]
        module = import_module(f"ottla.broker.apis.{spec.module}")
        assert f"(key {api_key})" in (module.__doc__ or "")
        assert module.__all__ == ["API"]
        assert (module.API.request, module.API.response) == (api.request_class, api.response_class)


def test_what_is_forwarded_is_served_by_both_kinds_of_listener() -> None:
    assert set(HANDLERS) & set(CONTROLLER_HANDLERS) >= FORWARDABLE


def test_every_handler_is_in_the_table() -> None:
    directory = Path(ottla.broker.apis.__file__).parent
    modules = {
        path.stem
        for path in (*directory.glob("*.py"), *(initializer.parent for initializer in directory.glob("*/__init__.py")))
        if path.stem != "__init__" and hasattr(import_module(f"ottla.broker.apis.{path.stem}"), "API")
    }
    tables = (HANDLERS, TELEMETRY_HANDLERS, CONTROLLER_HANDLERS)
    assert {*modules, "switched_off"} == {spec.module for table in tables for spec in table.values()}
