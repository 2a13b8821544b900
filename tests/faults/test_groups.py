"""A group in turmoil for a minute, or for FAULTS_SECONDS."""

from __future__ import annotations

import pytest

from tests.integration.group_turmoil import KINDS, check_that_promises_hold


@pytest.mark.faults
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", KINDS)
def test_fifty_members_come_and_go(kind: str, faults_seconds: float) -> None:
    check_that_promises_hold(KINDS[kind], seconds=faults_seconds)
