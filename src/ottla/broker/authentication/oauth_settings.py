"""The settings of OAUTHBEARER. A node does not start if they would accept unchecked tokens.

- Without keys, an issuer and an audience no token could be trusted (CVE-2026-33557, CVE-2026-110985).
- The address or the file of the keys must be in the node's list of allowed ones (CVE-2025-27817).
- Unsecured tokens must be asked for by the name of Kafka's class for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ottla.model.config.keys import ConfigError
from ottla.sasl.bearer_tokens import BearerRules, SignedTokens, UnsecuredTokens
from ottla.sasl.key_set import KeySet

if TYPE_CHECKING:
    from ottla.broker.authentication.checkers import FetchDocument
    from ottla.broker.authentication.listener_settings import ListenerSettings
    from ottla.model.ports import World

__all__ = ["ALLOWED_FILES", "ALLOWED_URLS", "ensure_allowed", "signed_tokens", "unsecured_tokens"]

OAUTHBEARER = "OAUTHBEARER"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files"
FETCH_SECONDS = 10.0


def signed_tokens(settings: ListenerSettings, world: World, fetch: FetchDocument) -> SignedTokens:
    """Reads the keys at once. Raises ConfigError."""
    if find_spec("jwt") is None or find_spec("cryptography") is None:
        raise ConfigError(
            "OAUTHBEARER needs the packages PyJWT and cryptography: pip install '.[oauth]' in a checkout.",
            key=settings.source("sasl.enabled.mechanisms"),
        )
    url = _required(settings, "sasl.oauthbearer.jwks.endpoint.url", "the keys that check tokens")
    rules = BearerRules(
        issuer=_required(settings, "sasl.oauthbearer.expected.issuer", "the issuer of tokens"),
        audiences=_audiences(settings),
        skew_seconds=_number(settings, "sasl.oauthbearer.clock.skew.seconds"),
        user_claim=_required(settings, "sasl.oauthbearer.sub.claim.name", "the claim of the user"),
        scope_claim=_required(settings, "sasl.oauthbearer.scope.claim.name", "the claim of scopes"),
        groups_claim=_groups_claim(settings),
    )
    ensure_allowed(settings, "sasl.oauthbearer.jwks.endpoint.url", url)
    timeout_ms = settings.get("sasl.login.read.timeout.ms", OAUTHBEARER)
    seconds = timeout_ms / 1000 if isinstance(timeout_ms, int) else FETCH_SECONDS
    keys = KeySet(
        lambda: fetch(url, seconds),
        world,
        refresh_seconds=_number(settings, "sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000,
        retry_seconds=_number(settings, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
        retry_seconds_max=_number(settings, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
    )
    try:
        keys.load()
    except (OSError, ValueError) as error:
        key = settings.source("sasl.oauthbearer.jwks.endpoint.url", OAUTHBEARER)
        raise ConfigError(f"{key} is {url}, from which no keys can be read: {error}.", key=key) from None
    return SignedTokens(keys, rules, world.clock)


def unsecured_tokens(options: Mapping[str, str], settings: ListenerSettings, world: World) -> UnsecuredTokens:
    skew = options.get("unsecuredValidatorAllowableClockSkewMs", "0")
    if not skew.isdecimal():
        key = settings.key("sasl.jaas.config", OAUTHBEARER)
        raise ConfigError(f"{key} has an unsecuredValidatorAllowableClockSkewMs that is no number.", key=key)
    rules = BearerRules(
        issuer="",
        audiences=(),
        skew_seconds=int(skew) // 1000,
        user_claim=options.get("unsecuredValidatorPrincipalClaimName") or "sub",
        scope_claim=options.get("unsecuredValidatorScopeClaimName") or "scope",
        groups_claim=_groups_claim(settings),
    )
    scopes = tuple(options.get("unsecuredValidatorRequiredScope", "").split())
    return UnsecuredTokens(rules, world.clock, required_scopes=scopes)


def _required(settings: ListenerSettings, name: str, meaning: str) -> str:
    value = settings.get(name, OAUTHBEARER)
    if not isinstance(value, str) or not value.strip():
        key = settings.key(name, OAUTHBEARER)
        raise ConfigError(
            f"The listener {settings.listener_name} offers OAUTHBEARER, so {name} or {key} must name {meaning}.",
            key=key,
        )
    return value.strip()


def _audiences(settings: ListenerSettings) -> tuple[str, ...]:
    name = "sasl.oauthbearer.expected.audience"
    value = settings.get(name, OAUTHBEARER)
    if not isinstance(value, tuple) or not value:
        key = settings.key(name, OAUTHBEARER)
        raise ConfigError(
            f"The listener {settings.listener_name} offers OAUTHBEARER, so {name} or {key} must name an audience.",
            key=key,
        )
    return value


def _groups_claim(settings: ListenerSettings) -> str:
    return str(settings.node_value("ottla.groups.claim")).strip()


def _number(settings: ListenerSettings, name: str) -> int:
    value = settings.get(name, OAUTHBEARER)
    assert isinstance(value, int)
    return value


def ensure_allowed(settings: ListenerSettings, name: str, url: str) -> None:
    """`name` is the key of the address. Raises ConfigError if the node's list has neither the address nor the file."""
    scheme = url.partition(":")[0].lower()
    key = settings.source(name, OAUTHBEARER)
    if scheme not in ("file", "http", "https"):
        raise ConfigError(f"{key} is {url}, but it must begin with https:, http: or file:.", key=key)
    is_file = scheme == "file"
    entry = url[len("file:") :].removeprefix("//") if is_file else url
    list_key = ALLOWED_FILES if is_file else ALLOWED_URLS
    allowed = [part.strip() for part in str(settings.node_value(list_key)).split(",")]
    if entry not in allowed:
        raise ConfigError(f"{key} is {url}, which {list_key} does not allow; add it there.", key=key)
