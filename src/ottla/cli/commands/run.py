"""`ottla up` and `ottla node` as the help page and completion see them.

They never get here when they run: `main` hands them to argparse before anything of click is imported, because a node
should start in a fraction of a second and keep nothing in memory that it does not need.
"""

from __future__ import annotations

import click

from ottla.cli.table import COMMANDS

__all__ = ["node", "up"]


@click.command(help=COMMANDS["up"].help)
def up() -> None:
    raise AssertionError("handled by main")


@click.command(help=COMMANDS["node"].help)
def node() -> None:
    raise AssertionError("handled by main")
