"""`ottla`: parses the command line and calls the module of the command.

A failure is one sentence on standard error and an exit code: 2 for an invalid command line, 1 for a node that cannot
run. A traceback is a defect.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence

from ottla import __version__

__all__ = ["main"]

# The commands that start nodes; all others talk to running nodes.
START_COMMANDS = ("up", "node")

LOADING_GC_THRESHOLD = 50_000

DESCRIPTION = "Apache Kafka's whole system in Python: same wire protocol, same files, no JVM."


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the console script's entry point."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words or words[0] not in START_COMMANDS:
        # Imported here because a node must not load click, rich and the client.
        from ottla.cli.app import run

        return run(words)
    # Modules loaded from here on live until the end: scanning them for garbage every 700 objects is useless.
    gc.set_threshold(LOADING_GC_THRESHOLD)
    parsed = _parser().parse_args(words)
    try:
        if parsed.command == "up":
            from ottla.cli.up import up

            return up(nodes=parsed.nodes, port=parsed.port, data=parsed.data, settings=dict(parsed.set or ()))
        from ottla.cli.node import node

        return node(config_file=parsed.config)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of standard output has closed the pipe.
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ottla", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"ottla {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser(
        "up",
        help="run a local cluster in the foreground",
        description="Runs a local cluster in the foreground until SIGTERM or Ctrl-C. Prints a line that begins with "
        "'ready' and the bootstrap addresses once records are accepted.",
        allow_abbrev=False,
    )
    up.add_argument("--nodes", type=_positive, default=1, metavar="N", help="how many nodes (default: 1)")
    up.add_argument(
        "--port",
        type=_port,
        default=9092,
        metavar="PORT",
        help="the first node's port, the next node has the next one (default: 9092; 0 takes free ones)",
    )
    up.add_argument("--data", default="data", metavar="DIR", help="where node i keeps DIR/node-i/ (default: ./data)")
    up.add_argument(
        "--set",
        action="append",
        type=_setting,
        metavar="KEY=VALUE",
        help="a broker setting for every node, with Kafka's names; may be repeated",
    )
    node = commands.add_parser(
        "node",
        help="run one node from a properties file",
        description="Runs one node in the foreground until SIGTERM or Ctrl-C. Kafka's server.properties files are "
        "read as they are.",
        allow_abbrev=False,
    )
    node.add_argument("--config", required=True, metavar="FILE", help="the node's properties")
    return parser


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes")
    return value


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port between 0 and 65535")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} does not look like KEY=VALUE")
    return key.strip(), value.strip()


if __name__ == "__main__":
    sys.exit(main())
