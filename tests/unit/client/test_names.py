"""The names of `ottla.client`, which are imported when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ottla.client


def test_every_name_can_be_imported() -> None:
    for name in ottla.client.__all__:
        assert getattr(ottla.client, name).__name__ == name


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="KafkaProducer"):
        ottla.client.KafkaProducer  # noqa: B018


def test_importing_the_package_imports_no_client() -> None:
    code = "import sys, ottla.client; print([name for name in sys.modules if name.startswith('ottla.client.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
