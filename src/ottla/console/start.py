"""From the options of `ottla console` to the settings of a console."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.cli.failures import Failure
from ottla.cli.logic.exposure import is_loopback
from ottla.client.settings import ClientSettings
from ottla.console.certificates import ConsoleTls
from ottla.console.forwarding import parse_networks
from ottla.console.oidc import OidcSettings
from ottla.console.roles import Roles, parse_roles
from ottla.console.settings import ConsoleSettings
from ottla.tls.errors import TlsError
from ottla.tls.principals import PrincipalRules

__all__ = ["console_settings"]


def console_settings(client: ClientSettings, options: dict[str, Any]) -> ConsoleSettings:
    """Raises Failure with a sentence about options that do not fit."""
    try:
        settings = ConsoleSettings(
            client=client,
            host=options["host"],
            port=options["port"],
            names=frozenset(options["names"]),
            public_url=_public_url(options["public_url"]),
            trusted_proxies=parse_networks(options["trusted_proxies"]),
            registry_url=options["registry"],
            connect_url=options["connect_url"],
            metrics_urls=tuple(options["metrics_urls"]),
            # A cluster with a login has users, so the console has them, too.
            has_password_login=options["sasl_login"] or (client.login is not None and not options["shared_login"]),
            tls=_tls(options),
            oidc=_oidc(options),
            roles=_roles(options["roles"]),
            journal=Path(options["journal"]),
        )
    except (ValueError, TlsError, OSError) as error:
        raise Failure(str(error)) from error
    if not settings.needs_login and not is_loopback(settings.host) and not options["insecure"]:
        raise Failure(
            f"{settings.host}: everyone who reaches this address can change the cluster, without a password. Add "
            "--insecure to accept that, or a login: --sasl-login, --oidc-issuer or --tls-authorities.",
            exit_code=2,
        )
    return settings


def _public_url(text: str | None) -> str | None:
    if text is not None and not text.startswith(("http://", "https://")):
        raise ValueError(f"--public-url {text!r} must begin with https:// or http://.")
    return text


def _tls(options: dict[str, Any]) -> ConsoleTls | None:
    certificate, key = options["tls_certificate"], options["tls_key"]
    if certificate is None and key is None:
        if options["tls_authorities"] is not None:
            raise ValueError("--tls-authorities needs --tls-certificate and --tls-key.")
        return None
    if certificate is None or key is None:
        raise ValueError("--tls-certificate and --tls-key are given together.")
    return ConsoleTls(
        certificate=certificate,
        key=key,
        authorities=options["tls_authorities"],
        principal_rules=PrincipalRules(options["tls_principal_rules"]),
    )


def _oidc(options: dict[str, Any]) -> OidcSettings | None:
    issuer, client_id, secret_file = options["oidc_issuer"], options["oidc_client"], options["oidc_secret_file"]
    if issuer is None:
        if client_id is not None or secret_file is not None:
            raise ValueError("--oidc-client and --oidc-secret-file need --oidc-issuer.")
        return None
    if client_id is None:
        raise ValueError("--oidc-issuer needs --oidc-client.")
    return OidcSettings(
        issuer=issuer,
        client_id=client_id,
        client_secret=None if secret_file is None else Path(secret_file).read_text(encoding="utf-8").strip(),
        user_claim=options["oidc_user_claim"],
        reaches_cluster=options["oidc_to_cluster"],
    )


def _roles(path: Path | None) -> Roles:
    return Roles() if path is None else parse_roles(path.read_text(encoding="utf-8"))
