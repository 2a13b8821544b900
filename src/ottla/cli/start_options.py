"""The options of `ottla up` and `ottla node`, for two readers.

A node must start in a fraction of a second and load no module that it does not need, so `main` reads a valid command
line with `read_options` from this table. Everything else (help pages, errors, completion, `docs/cli.md`) is click's, as
for all commands: `commands/run` builds the click commands from the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["START_OPTIONS", "StartOption", "read_options", "start"]


class StartOption(NamedTuple):
    flag: str
    metavar: str
    help: str
    # Raises ValueError with a sentence. None: the option has no value.
    convert: Callable[[str], Any] | None = str
    default: Any = None
    is_required: bool = False
    is_repeated: bool = False
    # The value of the option without a word behind it; None: a word is needed.
    bare: Any = None

    @property
    def name(self) -> str:
        return self.flag.lstrip("-").replace("-", "_")


def read_options(command: str, words: Sequence[str]) -> dict[str, Any] | None:
    """The values of all options. None for a line that is not plainly valid: click handles and explains it."""
    options = {option.flag: option for option in START_OPTIONS[command]}
    values: dict[str, Any] = {
        option.name: [] if option.is_repeated else False if option.convert is None else option.default
        for option in options.values()
    }
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        flag, has_value, text = word.partition("=")
        option = options.get(flag)
        if option is None or (option.convert is None and has_value):
            return None
        if option.convert is None:
            values[option.name] = True
            continue
        if not has_value:
            if option.bare is not None and (not waiting or waiting[-1].startswith("-")):
                values[option.name] = option.bare
                continue
            text = waiting.pop() if waiting else "-"
            if text.startswith("-"):
                return None
        try:
            value = option.convert(text)
        except ValueError:
            return None
        if option.is_repeated:
            values[option.name].append(value)
        else:
            values[option.name] = value
    if any(option.is_required and values[option.name] is None for option in options.values()):
        return None
    return values


def start(command: str, values: dict[str, Any]) -> int:
    """Runs the node or the cluster; returns the exit code."""
    if command == "up":
        from ottla.cli.up import up

        return up(**{**values, "set": dict(values["set"])})
    from ottla.cli.node import node

    return node(config_file=values["config"])


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise ValueError(f"{text!r} is not a number of nodes.")
    return value


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"{text!r} is not a port between 0 and 65535.")
    return int(text)


def _host(text: str) -> str:
    host = text.removeprefix("[").removesuffix("]")
    if not host or "/" in host or " " in host or host.count(":") == 1:
        raise ValueError(f"{text!r} is not a name or an address without a port.")
    return host


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ValueError(f"{text!r} does not look like KEY=VALUE.")
    return key.strip(), value.strip()


START_OPTIONS: dict[str, tuple[StartOption, ...]] = {
    "up": (
        StartOption("--nodes", "N", "How many nodes.  [default: 1]", _positive, 1),
        StartOption(
            "--port",
            "PORT",
            "The first node's; the next node has the next one, 0 takes free ones.  [default: 9092]",
            _port,
            9092,
        ),
        StartOption("--data", "DIR", "Where node i keeps DIR/node-i/.  [default: ./data]", str, "data"),
        StartOption(
            "--host",
            "ADDRESS",
            "The address that nodes listen on, 0.0.0.0 for all. Other machines can reach any but the default, so it "
            "needs --secure or --insecure.  [default: 127.0.0.1]",
            _host,
            "127.0.0.1",
        ),
        StartOption(
            "--advertise",
            "NAME",
            "The name or address that clients are told to connect to.  [default: that of --host, or the machine's "
            "name]",
            _host,
        ),
        StartOption(
            "--registry",
            "[PORT]",
            "Run a Schema Registry beside the nodes; 0 takes a free port.  [default port: 8081]",
            _port,
            bare=8081,
        ),
        StartOption(
            "--console",
            "[PORT]",
            "Run the web console beside the nodes; 0 takes a free port.  [default port: 8080]",
            _port,
            bare=8080,
        ),
        StartOption(
            "--secure",
            "",
            "TLS, a login and access rules: makes certificates and a first user, and writes the files of clients.",
            None,
        ),
        StartOption("--insecure", "", "Accept that a listener that others can reach has no authentication.", None),
        StartOption(
            "--set",
            "KEY=VALUE",
            "A broker setting of every node, with Kafka's names; may be repeated.",
            _setting,
            is_repeated=True,
        ),
    ),
    "node": (
        StartOption(
            "--config",
            "FILE",
            "The node's properties; Kafka's server.properties are read as they are.",
            is_required=True,
        ),
    ),
}
