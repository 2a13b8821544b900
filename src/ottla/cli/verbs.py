"""Commands of several verbs: `ottla topics create x`, and Kafka's `ottla topics --create --topic x` alike.

Kafka's tools have their verb among the flags. A group of this class replaces the flag by the verb in front. If
Kafka's tool has a plain verb behind the address (`--bootstrap-server X describe`), the verb is moved to the front as
well.
"""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = ["VerbGroup"]

_ADDRESS = ("-b", "--bootstrap-server", "--bootstrap-servers", "--bootstrap-controller", "--command-config")


class VerbGroup(click.Group):
    """`verbs` maps a flag of Kafka's tool to a verb; `default` is the verb of a command line without one."""

    def __init__(self, *args: Any, verbs: dict[str, str] | None = None, default: str | None = None, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.verbs = verbs
        self.default = default

    @property
    def flags(self) -> dict[str, str]:
        return self.verbs if self.verbs is not None else {f"--{name}": name for name in self.commands}

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        completions = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            completions += [CompletionItem(flag) for flag in self.flags if flag.startswith(incomplete)]
        return completions

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = self.flags
        if not args and self.default is not None:
            args = [self.default]
        position = _behind_address(args)
        if position < len(args) and args[position] in self.commands:
            args = [args[position], *args[:position], *args[position + 1 :]]
        if args and args[0] not in self.commands and not {"-h", "--help"}.intersection(args[:1]):
            chosen = [word for word in args if word in flags]
            if len({flags[word] for word in chosen}) > 1:
                raise click.UsageError(f"{' and '.join(chosen)} exclude each other.", ctx)
            if chosen:
                args = [flags[chosen[0]], *[word for word in args if word not in chosen]]
            elif self.default is not None:
                args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Help texts in full: they wrap."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help or "") for name, command in self.commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            raise click.UsageError(f"{args[0]!r} is none of: {', '.join(sorted(self.commands))}.", ctx)
        return super().resolve_command(ctx, args)


def _behind_address(args: list[str]) -> int:
    """The index of the first word that is not a connection option or its value."""
    position = 0
    while position < len(args) and args[position].partition("=")[0] in _ADDRESS:
        position += 1 if "=" in args[position] else 2
    return position
