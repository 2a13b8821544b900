"""Limits on connections that change while the node runs."""

from __future__ import annotations

from ottla.host.admission import Admission, AdmissionLimits


def test_a_raised_limit_lets_those_in_who_wait() -> None:
    admission = Admission(AdmissionLimits(connections_max=1))
    assert admission.admit("A", "::1")
    assert not admission.has_room("A")
    answers: list[bool] = []
    admission.when_room(lambda: answers.append(admission.has_room("A")))
    admission.change_limits(AdmissionLimits(connections_max=2))
    assert answers == [True]


def test_a_lowered_limit_holds_for_the_next_connection() -> None:
    admission = Admission(AdmissionLimits())
    assert admission.admit("A", "::1")
    admission.change_limits(AdmissionLimits(connections_per_address_max=1))
    assert not admission.admit("A", "::1")
    assert admission.connections == 1
