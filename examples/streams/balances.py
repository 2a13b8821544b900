"""Balances: the state of the application answers questions, without a database beside it (interactive queries)."""

from __future__ import annotations

from collections.abc import Sequence

from examples.streams.running import parse, run
from ottla.streams import Application, Consumed, Grouped, Materialized, Serdes, StreamsBuilder, Topology

__all__ = ["balance_of", "build", "main"]


def build(source: str) -> Topology:
    """Payments by account, summed in the store `balances`."""
    text, number = Serdes.string(), Serdes.integer()
    builder = StreamsBuilder()
    payments = builder.stream(source, Consumed.with_(text, number)).group_by_key(Grouped.with_(text, number))
    payments.reduce(lambda total, amount: total + amount, Materialized.as_("balances"))
    return builder.build()


def balance_of(application: Application, account: str) -> int:
    """Any instance can be asked. With `application.server` it finds the instance that has the account."""
    balance = application.store("balances").get(account)
    return 0 if balance is None else int(getattr(balance, "value", balance))


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse("Balances: totals of accounts", arguments, input="payments")
    run(build(options.input), options)


if __name__ == "__main__":
    main()
