"""`ottla console`: the web console in the foreground."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from ottla.cli.console_child import missing_libraries
from ottla.cli.failures import Failure
from ottla.cli.session import Session, cluster_options, registry_option, run_async

__all__ = ["console"]

# The file name of `ottla balance`, so that the console and the command can resume the same run.
JOURNAL = "ottla-balance.json"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
# Errors of the TLS library have numbers of their own above those of the operating system.
_SSL_ERRORS = 200


@click.command(
    help="Run the web console in the foreground, until SIGTERM or Ctrl-C. A line that begins with 'ready' and the "
    "address is printed once requests are answered. It works with Apache Kafka too. Users of a cluster with logins "
    "log in with their own passwords, and the cluster's rights decide what they may do."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, metavar="PORT", help="[default: 8080]")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="The address to listen on.  [default: 127.0.0.1]")
@click.option("--name", "names", multiple=True, metavar="NAME", help="A name by which browsers reach it; repeatable.")
@click.option("--public-url", metavar="URL", help="The address that browsers use, if a proxy stands before it.")
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="NETWORK",
    help="Believe X-Forwarded-For and X-Forwarded-Proto of this proxy; repeatable.",
)
@registry_option
@click.option("--connect", "connect_url", envvar="OTTLA_CONNECT", metavar="URL", help="A worker of Kafka Connect.")
@click.option(
    "--metrics", "metrics_urls", multiple=True, metavar="URL", help="The metrics page of a node; one for each node."
)
@click.option("--sasl-login", is_flag=True, help="Users log in, also if --command-config has no login.")
@click.option(
    "--shared-login", is_flag=True, help="Users need no password: all act with the login of --command-config."
)
@click.option("--roles", type=_FILE, metavar="FILE", help="Who may do what in the console, and what is masked (JSON).")
@click.option("--tls-certificate", type=_FILE, metavar="FILE", help="Serve https with this certificate (PEM).")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="The key of the certificate (PEM).")
@click.option(
    "--tls-authorities", type=_FILE, metavar="FILE", help="Users may log in with certificates of these authorities."
)
@click.option(
    "--tls-principal-rules",
    default="DEFAULT",
    metavar="RULES",
    help="Names of users, made of certificates (ssl.principal.mapping.rules).  [default: the whole subject]",
)
@click.option("--oidc-issuer", metavar="URL", help="Users log in at this OpenID provider.")
@click.option("--oidc-client", metavar="ID", help="The console's client id there.")
@click.option("--oidc-secret-file", type=_FILE, metavar="FILE", help="The secret of the client, if it has one.")
@click.option("--oidc-user-claim", default="sub", metavar="CLAIM", help="The claim with the user.  [default: sub]")
@click.option("--oidc-to-cluster", is_flag=True, help="Act with the provider's tokens, by OAUTHBEARER.")
@click.option(
    "--journal", default=JOURNAL, metavar="FILE", help=f"To resume a balancing run from.  [default: {JOURNAL}]"
)
@click.option("--insecure", is_flag=True, help="Accept that others can reach a console without a login.")
@click.option("--ready-word", default="ready", hidden=True)
@cluster_options
def console(session: Session, ready_word: str, **options: Any) -> int:
    if missing := missing_libraries():
        raise Failure(f"The console needs {', '.join(missing)}: run `pip install '.[console]'` in a checkout.")
    # The console package imports the command line, so the command line imports the console by name.
    settings = import_module("ottla.console.start").console_settings(session.settings, options)
    run_console = import_module("ottla.console.process").run_console
    level = os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    lifeline = sys.stdin.fileno() if os.environ.get("OTTLA_LIFELINE") == "stdin" else None
    try:
        run_async(run_console(settings, on_ready=lambda url: click.echo(f"{ready_word} {url}"), lifeline=lifeline))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno < _SSL_ERRORS else str(error)
        raise Failure(f"Cannot listen on {options['host']}:{options['port']}: {reason}.") from error
    return 0
