"""`ottla node --config FILE`: one node from a properties file, in the foreground."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable

from ottla.broker.context import ListenerInfo
from ottla.broker.loggers import LEVELS
from ottla.cli.logic.exposure import exposed_listeners
from ottla.host.logs import set_up_logging
from ottla.host.node_process import NodeProcess, StartError
from ottla.host.references import own_config
from ottla.model.config import BrokerConfig, ConfigError, decode_properties, parse_properties

__all__ = ["fail", "keep_files_private", "node", "run_node"]

logger = logging.getLogger("ottla.cli.node")

# Files of a node have no permissions for users outside its group.
_OTHERS = 0o007


def node(*, config_file: str) -> int:
    """Runs until the node is stopped; returns the exit code."""
    try:
        with open(config_file, "rb") as file:
            text = decode_properties(file.read())
    except OSError as error:
        return fail(f"Cannot read {config_file}: {error.strerror}.")
    try:
        config = own_config(parse_properties(text))
    except ConfigError as error:
        return fail(f"{config_file}: {error.message}")
    except ValueError as error:
        return fail(f"{config_file}: {error}")
    directory = os.path.dirname(os.path.abspath(config_file))
    # A pid file is written only next to a properties file that `ottla up` created.
    pid_file = os.path.join(directory, "node.pid") if os.path.basename(config_file) == "node.properties" else None
    return run_node(config, pid_file=pid_file, on_ready=_say_ready)


def keep_files_private() -> None:
    """From now on, files of this process cannot be read by every user of the machine."""
    os.umask(os.umask(_OTHERS) | _OTHERS)


def run_node(
    config: BrokerConfig,
    *,
    pid_file: str | None,
    on_ready: Callable[[list[str], str | None], object],
    on_bound: Callable[[list[ListenerInfo]], object] | None = None,
) -> int:
    """Runs a node in this process; a failure to start is one sentence on standard error.

    `on_ready` receives the addresses for clients and the URL of the metrics, if any.
    """
    level = os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper()
    if level not in LEVELS:
        return fail(f"OTTLA_LOG_LEVEL is {level}, but it must be one of {', '.join(LEVELS)}.")
    set_up_logging(level=level, line_format=config.ottla_log_format)
    if exposed := exposed_listeners([config]):
        logger.warning(
            "clients need no credentials for %s, and other machines can reach it: see docs/security.md",
            ", ".join(map(str, exposed)),
        )
    keep_files_private()
    owns_pid_file = False

    def on_locked() -> None:
        nonlocal owns_pid_file
        if pid_file is not None:
            _write_pid(pid_file)
            owns_pid_file = True

    # Set by a parent whose nodes must stop when it is killed, such as `ottla.testing`.
    lifeline = sys.stdin.fileno() if os.environ.get("OTTLA_LIFELINE") == "stdin" else None
    process = NodeProcess(
        config,
        on_ready=lambda addresses: on_ready(addresses, process.metrics_url),
        on_bound=on_bound,
        on_locked=on_locked,
        lifeline=lifeline,
    )
    try:
        process.run()
    except StartError as error:
        return fail(str(error))
    finally:
        if pid_file is not None and owns_pid_file:
            _remove_pid(pid_file)
    return 0


def fail(sentence: str, *, exit_code: int = 1) -> int:
    """Prints the error; returns the exit code."""
    from ottla.cli.output import say_wrong

    say_wrong(sentence)
    return exit_code


def _say_ready(addresses: list[str], metrics_url: str | None) -> None:
    print("ready", ",".join(addresses), *((metrics_url,) if metrics_url else ()), flush=True)


def _write_pid(path: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")


def _remove_pid(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        return
