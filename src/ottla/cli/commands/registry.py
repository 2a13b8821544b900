"""`ottla registry`: one instance of the Schema Registry in the foreground."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.failures import Failure
from ottla.cli.registry_child import missing_libraries
from ottla.cli.session import Session, cluster_options, read_properties, run_async

if TYPE_CHECKING:
    from ottla.registry.node.guard import Guard
    from ottla.registry.node.security import TlsFiles

__all__ = ["registry"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
# Errors of the TLS library have numbers of their own above those of the operating system.
_SSL_ERRORS = 200
_TLS_OPTIONS = ("tls_certificate", "tls_key", "tls_authorities", "tls_clients")


@click.command(
    help="Run a Schema Registry in the foreground, until SIGTERM or Ctrl-C. A line that begins with 'ready' and the "
    "address is printed once requests are answered. (schema-registry-start)"
)
@click.option("--port", type=click.IntRange(0, 65535), default=8081, metavar="PORT", help="[default: 8081]")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="The address to listen on.  [default: 127.0.0.1]")
@click.option("--advertise", metavar="NAME", help="The name by which other instances reach this one.")
@click.option("--topic", default="_schemas", metavar="TOPIC", help="Where schemas are stored.  [default: _schemas]")
@click.option(
    "--group",
    default="schema-registry",
    metavar="GROUP",
    help="The group in which instances elect their writer.  [default: schema-registry]",
)
@click.option(
    "--replicas", type=click.IntRange(1), metavar="N", help="Replicas of a new topic.  [default: 3, or all brokers]"
)
@click.option("--follower", is_flag=True, help="This instance is never elected to write.")
@click.option("--tls-certificate", type=_FILE, metavar="FILE", help="Serve https with this certificate (PEM).")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="The key of the certificate (PEM).")
@click.option(
    "--tls-authorities",
    type=_FILE,
    metavar="FILE",
    help="Authorities of the certificates of clients and other instances.",
)
@click.option("--tls-clients", is_flag=True, help="Accept only clients with a certificate of --tls-authorities.")
@click.option(
    "--tls-principal-rules",
    default="DEFAULT",
    metavar="RULES",
    help="Names of clients, made of their certificates (ssl.principal.mapping.rules).  [default: the whole subject]",
)
@click.option(
    "--users",
    type=_FILE,
    metavar="FILE",
    help="Accept these users: a line NAME=PASSWORD for each, in clear text or from 'ottla schemas hash-password'.",
)
@click.option(
    "--token-keys", metavar="URL", help="Accept bearer tokens signed with these keys (JWKS; https: or file:)."
)
@click.option("--token-issuer", metavar="TEXT", help="The issuer that tokens must have.")
@click.option("--token-audience", multiple=True, metavar="TEXT", help="An audience that tokens may have; repeatable.")
@click.option(
    "--token-user-claim", default="sub", metavar="CLAIM", help="The claim that names the user.  [default: sub]"
)
@click.option(
    "--acls", type=_FILE, metavar="FILE", help="Who may do what with which subject; read again when it changes."
)
@click.option(
    "--audit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append changes and refusals to this file.",
)
@click.option(
    "--allow-origin",
    multiple=True,
    metavar="ORIGIN",
    help="Web pages of this address may use the registry (access.control.allow.origin); repeatable, * is any text.",
)
@click.option(
    "--allow-methods",
    metavar="METHODS",
    default="",
    help="What they may ask (access.control.allow.methods).  [default: GET,POST,HEAD]",
)
@click.option(
    "--allow-headers",
    metavar="NAMES",
    default="",
    help="Headers that they may send (access.control.allow.headers); Authorization for logins.",
)
@click.option("--ready-word", default="ready", hidden=True)
@cluster_options
def registry(
    session: Session,
    port: int,
    host: str,
    advertise: str | None,
    topic: str,
    group: str,
    replicas: int | None,
    follower: bool,
    ready_word: str,
    audit: Path | None,
    allow_origin: tuple[str, ...],
    allow_methods: str,
    allow_headers: str,
    **security: Any,
) -> int:
    if missing := missing_libraries():
        raise Failure(f"The registry needs {', '.join(missing)}: run `pip install '.[registry]'` in a checkout.")
    from ottla.registry.node.cross_origin import CrossOrigin
    from ottla.registry.node.process import RegistryInstance, run_registry
    from ottla.registry.node.service import ServiceSettings

    level = os.environ.get("OTTLA_LOG_LEVEL", "INFO").upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    _open_audit(audit)
    settings = ServiceSettings(topic=topic, group_id=group, replicas=replicas, is_eligible=not follower)

    tls = _tls_files(**{name: security.pop(name) for name in _TLS_OPTIONS})
    guard = _guard(tls, **security)

    async def run() -> None:
        instance = RegistryInstance(
            session.settings,
            host=host,
            port=port,
            advertised_host=advertise,
            settings=settings,
            tls=tls,
            guard=guard,
            cross_origin=CrossOrigin(_names(",".join(allow_origin)), _names(allow_methods), _names(allow_headers)),
        )
        lifeline = sys.stdin.fileno() if os.environ.get("OTTLA_LIFELINE") == "stdin" else None
        await run_registry(instance, on_ready=lambda url: click.echo(f"{ready_word} {url}"), lifeline=lifeline)

    try:
        run_async(run())
    except ValueError as error:
        raise Failure(f"{error}") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno < _SSL_ERRORS else str(error)
        raise Failure(f"Cannot listen on {host}:{port}: {reason}.") from error
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _guard(
    tls: TlsFiles | None,
    *,
    users: Path | None,
    acls: Path | None,
    tls_principal_rules: str,
    token_keys: str | None,
    token_issuer: str | None,
    token_audience: tuple[str, ...],
    token_user_claim: str,
) -> Guard:
    from ottla.registry.node.guard import Guard, own_principals
    from ottla.registry.node.passwords import Passwords
    from ottla.tls.errors import TlsError
    from ottla.tls.principals import PrincipalRules

    tokens = None
    if token_keys is not None:
        if not token_issuer or not token_audience:
            raise click.UsageError("--token-keys needs --token-issuer and --token-audience: no other token is trusted.")
        from ottla.registry.node.tokens import BearerRules, BearerTokens

        rules = BearerRules(issuer=token_issuer, audiences=token_audience, user_claim=token_user_claim)
        tokens = BearerTokens(token_keys, rules)
    elif token_issuer or token_audience:
        raise click.UsageError("--token-issuer and --token-audience need --token-keys.")
    try:
        names = PrincipalRules(tls_principal_rules)
        return Guard(
            passwords=None if users is None else Passwords(read_properties(str(users))),
            tokens=tokens,
            rules_file=acls,
            principal_rules=names,
            own_principals=frozenset() if tls is None else own_principals(tls.certificate, names),
        )
    except (TlsError, ValueError, OSError) as error:
        raise Failure(str(error)) from error


def _open_audit(path: Path | None) -> None:
    """Opens the audit log. A thread writes its lines, so that a slow disk does not delay requests."""
    import queue
    from logging.handlers import QueueHandler, QueueListener

    logger = logging.getLogger("ottla.registry.audit")
    if path is None:
        logger.setLevel(logging.WARNING)
        return
    lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
    logger.addHandler(QueueHandler(lines))
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    listener = QueueListener(lines, handler)
    listener.start()
    atexit.register(listener.stop)


def _tls_files(
    *, tls_certificate: Path | None, tls_key: Path | None, tls_authorities: Path | None, tls_clients: bool
) -> TlsFiles | None:
    from ottla.registry.node.security import TlsFiles

    if tls_certificate is None and tls_key is None:
        if tls_authorities is not None or tls_clients:
            raise click.UsageError("--tls-authorities and --tls-clients need --tls-certificate and --tls-key.")
        return None
    if tls_certificate is None or tls_key is None:
        raise click.UsageError("--tls-certificate and --tls-key are given together.")
    if tls_clients and tls_authorities is None:
        raise click.UsageError("--tls-clients needs --tls-authorities.")
    return TlsFiles(tls_certificate, tls_key, tls_authorities, needs_clients=tls_clients)
