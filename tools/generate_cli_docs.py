"""Writes `docs/cli.md` from the table of commands and from their options.

    python tools/generate_cli_docs.py [--check]

With --check nothing is written; the exit status says whether the page is up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ottla.cli.app import root
from ottla.cli.table import COMMANDS, SECTIONS

PAGE = Path(__file__).resolve().parent.parent / "docs/cli.md"

INTRODUCTION = """# The command line

This page is generated from `src/ottla/cli/table.py` and the commands themselves by `tools/generate_cli_docs.py`.

`ottla` works with Ottla and Apache Kafka. The address of the cluster is `-b`, or `OTTLA_BOOTSTRAP_SERVER`, or that of
the profile, else `localhost:9092`. Commands take the flags of Kafka's own tools, including verbs: `ottla topics
--create --topic a` is `ottla topics create a`. In addition, every command that talks to a cluster has `--json` for
programs (names in camel case), `--timeout` in milliseconds (`--call-timeout` for `produce`, because `--timeout` has
another meaning in Kafka's tool), and `--command-config` for a Java client's properties file. Every help page has
examples. Tables fit the terminal; in a pipe every row is one line, and an empty result is said on standard error.

A profile is a name for a cluster: `ottla profile create prod -b broker:9092 --connect http://connect:8083` writes it
under `~/.config/ottla` (`XDG_CONFIG_HOME` moves it), readable for you only, and `ottla profile use prod` chooses it. It
may contain any property of a Java client (`--command-config FILE` copies them). A command uses the current profile
unless `-b`, `OTTLA_BOOTSTRAP_SERVER` or `--command-config` names the cluster; `--profile` or `OTTLA_PROFILE` names a
profile for one command.

Exit codes: 0 for success, 1 for failure (also if the reader of the output has gone), 2 for an invalid command line, 130
after Ctrl-C (`up` and `node` stop in order and exit with 0). A command that cannot be undone asks for confirmation;
without a terminal it is refused unless `--yes` is given. `eval "$(ottla completion bash)"` completes commands, options,
and the names of topics and groups (`zsh` and `fish` likewise).

"""

# Options of every command that talks to a cluster; the introduction describes them.
SHARED = {"bootstrap", "command_config", "profile", "as_json", "timeout_ms"}


def page() -> str:
    lines = [INTRODUCTION + "| command | verbs | instead of | what |", "|---|---|---|---|"]
    context = click.Context(root)
    for section in SECTIONS:
        for name, entry in COMMANDS.items():
            if entry.section == section:
                command = root.get_command(context, name)
                verbs = " ".join(command.commands) if isinstance(command, click.Group) else ""
                kafka = ", ".join(f"`{word.strip()}`" for word in entry.kafka.split(",") if word)
                lines.append(f"| `ottla {name}` | {verbs} | {kafka} | {entry.help} |")
    for section in SECTIONS:
        for name, entry in COMMANDS.items():
            if entry.section == section:
                lines += describe(root.get_command(context, name), name)
    return "\n".join(lines) + "\n"


def describe(command: click.Command | None, name: str) -> list[str]:
    assert command is not None
    lines = ["", f"## ottla {name}", ""]
    if isinstance(command, click.Group):
        for verb, verb_command in command.commands.items():
            lines += [f"**{verb}**: {verb_command.help}", *options(verb_command), ""]
        return lines[:-1]
    return [*lines, str(command.help), *options(command)]


def options(command: click.Command) -> list[str]:
    """One line for each option that is its own and not hidden."""
    lines = []
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or parameter.hidden or parameter.name in SHARED:
            continue
        names = ", ".join(f"`{word}`" for word in parameter.opts)
        value = f" {parameter.metavar}" if parameter.metavar else ""
        lines.append(f"- {names}{value}{f': {parameter.help}' if parameter.help else ''}")
    return ["", *lines] if lines else []


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        return 0 if PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
