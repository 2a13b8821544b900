"""`ottla completion`: the script that lets a shell complete commands, options, topics and groups."""

from __future__ import annotations

import click

__all__ = ["completion"]

WHERE = {
    "bash": '# Put this into ~/.bashrc:  eval "$(ottla completion bash)"',
    "zsh": '# Put this into ~/.zshrc:  eval "$(ottla completion zsh)"',
    "fish": "# Save this as ~/.config/fish/completions/ottla.fish",
}


@click.command(help="Print the shell's completion script.")
@click.argument("shell", type=click.Choice(sorted(WHERE)))
def completion(shell: str) -> None:
    from click.shell_completion import get_completion_class

    from ottla.cli.app import COMPLETION_VARIABLE, PROGRAM, root

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(WHERE[shell])
    click.echo(kind(root, {}, PROGRAM, COMPLETION_VARIABLE).source())
