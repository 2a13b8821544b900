"""A login that has begun is in the browser, and only this console can have written it."""

from __future__ import annotations

import pytest

from ottla.console.login_tickets import TICKET_SECONDS, LoginTickets


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_ticket_is_read_again() -> None:
    tickets = LoginTickets()
    ticket = tickets.new(redirect="https://console.example/done", to="/topics?filter=ü")
    assert tickets.read(tickets.signed(ticket), state=ticket.state) == ticket
    assert 43 <= len(tickets.verifier(ticket)) <= 128
    assert len({ticket.state, tickets.nonce(ticket), tickets.verifier(ticket)}) == 3


def test_secrets_of_a_login_are_not_in_the_cookie() -> None:
    tickets = LoginTickets()
    ticket = tickets.new(redirect="/", to="/")
    assert tickets.verifier(ticket) not in tickets.signed(ticket)
    assert LoginTickets().verifier(ticket) != tickets.verifier(ticket)


def test_a_ticket_becomes_too_old() -> None:
    clock = Clock()
    tickets = LoginTickets(clock)
    ticket = tickets.new(redirect="/", to="/")
    text = tickets.signed(ticket)
    clock.now += TICKET_SECONDS - 1
    assert tickets.read(text, state=ticket.state) == ticket
    clock.now += 1
    assert tickets.read(text, state=ticket.state) is None


@pytest.mark.parametrize("text", [None, "", ".", "a.b", "e30.", "ü.ü", "\udc80.\udc80"])
def test_what_others_write_is_refused(text: str | None) -> None:
    assert LoginTickets().read(text, state="") is None


def test_tickets_of_other_logins_and_other_consoles_are_refused() -> None:
    tickets = LoginTickets()
    ticket, other = tickets.new(redirect="/", to="/"), tickets.new(redirect="/", to="/")
    assert tickets.read(tickets.signed(ticket), state=other.state) is None
    assert LoginTickets().read(tickets.signed(ticket), state=ticket.state) is None
    forged = tickets.signed(ticket._replace(to="/evil")).partition(".")[0] + "." + tickets.signed(ticket).split(".")[1]
    assert tickets.read(forged, state=ticket.state) is None
