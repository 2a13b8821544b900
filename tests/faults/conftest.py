"""How long faults go on: FAULTS_SECONDS for each test."""

from __future__ import annotations

import os

import pytest

FAULTS_SECONDS = 60.0


@pytest.fixture(scope="session")
def faults_seconds() -> float:
    return float(os.environ.get("FAULTS_SECONDS", FAULTS_SECONDS))
