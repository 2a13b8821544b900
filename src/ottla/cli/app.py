"""The command line: finds a command, runs it, and reports every failure as one sentence.

Exit codes: 0 for success, 1 for failure, 2 for an invalid command line, 130 for Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from ottla import __version__
from ottla.cli.examples import epilog
from ottla.cli.failures import Failure, sentence_of
from ottla.cli.output import say_wrong
from ottla.cli.table import COMMANDS, SECTIONS

__all__ = ["COMPLETION_VARIABLE", "PROGRAM", "root", "run"]

PROGRAM = "ottla"
# Set by the shell when it asks for completions; click reads it.
COMPLETION_VARIABLE = "_OTTLA_COMPLETE"


class _Root(click.Group):
    """Lists all commands by name; imports the module of a command only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = import_module(f"ottla.cli.commands.{entry.module}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        command.epilog = epilog(cmd_name)
        if isinstance(command, click.Group):
            for verb, inner in command.commands.items():
                inner.epilog = epilog(f"{cmd_name} {verb}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else " 'ottla --help' lists all commands."
            raise click.UsageError(f"There is no command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for section in SECTIONS:
            with formatter.section(section):
                formatter.write_dl(
                    [(name, entry.help) for name, entry in COMMANDS.items() if entry.section == section], col_max=22
                )


@click.group(
    cls=_Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Apache Kafka's whole system in Python: same wire protocol, same files, no JVM.\n\nCommands take Kafka's own "
    "flags. The cluster is at -b, or OTTLA_BOOTSTRAP_SERVER, or that of the profile, else localhost:9092.",
    epilog="\b\nExamples:\n  ottla up\n  echo hello | ottla produce greetings\n  ottla consume greetings --last 10",
)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def root() -> None:
    """The root command; its help is above."""


def run(arguments: Sequence[str]) -> int:
    """Runs one command; prints a traceback only if `OTTLA_TRACEBACK` is set."""
    code = _run(arguments)
    try:
        # Flush here: output that cannot be written has to change the exit code.
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        # Standard output is gone. A closed pipe (`| head`) is no failure of the command.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            say_wrong(f"The answer cannot be written: {sentence_of(error)}")
        return 1
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        result: Any = root.main(
            list(arguments), prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, standalone_mode=False
        )
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx is not None else "", err=True)
        return 2
    except click.UsageError as error:
        # The line is incomplete while it is typed: an invalid line gives no completions and no error.
        return 1 if COMPLETION_VARIABLE in os.environ else _usage(error)
    except (click.exceptions.Exit, SystemExit) as error:
        code = error.exit_code if isinstance(error, click.exceptions.Exit) else error.code
        return code if isinstance(code, int) else 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("", err=True)
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        if os.environ.get("OTTLA_TRACEBACK"):
            raise
        say_wrong(sentence_of(error))
        if isinstance(error, Failure):
            return error.exit_code
        # Arguments are parsed before anything else happens: see `session.run_async`.
        return 2 if isinstance(error, ValueError) else 1
    return result if isinstance(result, int) else 0


def _usage(error: click.UsageError) -> int:
    say_wrong(error.format_message())
    if error.ctx is not None:
        click.echo(f"Try '{error.ctx.command_path} --help'.", err=True)
    return 2
