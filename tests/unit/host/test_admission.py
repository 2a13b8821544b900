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


def test_brokers_on_a_listener_of_their_own_find_room_at_any_rate() -> None:
    limits = AdmissionLimits(connections_max=1, connections_per_second_max=1)
    admission = Admission(limits, protected_listener="BROKERS")
    closed: list[str] = []

    def close_one() -> None:
        closed.append("CLIENTS")
        admission.release("CLIENTS", "::1")

    admission.on_excess = close_one
    assert admission.seconds_to_wait("CLIENTS", 10.5) == 0.0
    admission.count_accepted("CLIENTS")
    assert admission.admit("CLIENTS", "::1")
    assert not admission.has_room("CLIENTS")
    assert admission.seconds_to_wait("CLIENTS", 10.5) > 0
    assert admission.has_room("BROKERS")
    assert admission.seconds_to_wait("BROKERS", 10.5) == 0.0
    assert admission.admit("BROKERS", "::2")
    assert (closed, admission.connections) == (["CLIENTS"], 1)
    # Brokers are not counted towards the rate of the others; limits of their own hold for them.
    admission.count_accepted("BROKERS")
    assert admission.seconds_to_wait("CLIENTS", 11.0) == 0.0
    admission.change_limits(AdmissionLimits(connections_per_listener_max={"BROKERS": 1}))
    assert not admission.has_room("BROKERS")
