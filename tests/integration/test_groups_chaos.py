"""Fifty members that join, leave, crash and freeze at random: what a group promises holds all the time."""

from __future__ import annotations

import pytest

from tests.integration.group_turmoil import KINDS, check_that_promises_hold


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_fifty_members_come_and_go(kind: str) -> None:
    check_that_promises_hold(KINDS[kind], seconds=8)
