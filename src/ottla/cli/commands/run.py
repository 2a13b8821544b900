"""`ottla up` and `ottla node` as the help page, completion and `docs/cli.md` see them.

These functions never run: `main` handles both commands with argparse before click is imported, because a node should
start in a fraction of a second and load no module that it does not need.
"""

from __future__ import annotations

import click

from ottla.cli.table import COMMANDS

__all__ = ["node", "up"]


@click.command(help=COMMANDS["up"].help)
@click.option("--nodes", metavar="N", help="How many nodes.  [default: 1]")
@click.option(
    "--port", metavar="PORT", help="The first node's; the next has the next one, 0 takes free ones.  [default: 9092]"
)
@click.option("--data", type=click.Path(file_okay=False), metavar="DIR", help="For DIR/node-i/.  [default: ./data]")
@click.option("--set", "settings", metavar="KEY=VALUE", help="A broker setting, with Kafka's names; may be repeated.")
def up(**_: str | None) -> None:
    raise AssertionError("handled by main")


@click.command(help=COMMANDS["node"].help)
@click.option("--config", type=click.Path(dir_okay=False), metavar="FILE", help="Its properties, as Kafka writes them.")
def node(**_: str | None) -> None:
    raise AssertionError("handled by main")
