"""SCRAM credentials of a new cluster: `storage format --add-scram` (KIP-900).

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=bob,iterations=8192,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3k1",saltedpassword="mT0yyUUxnlJaC99HXgR=="]

The words are those of Kafka's own tool. Nodes that log in at each other with SCRAM need credentials before the cluster
has its first leader.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable

from ottla.sasl.scram import ITERATIONS_MIN, MECHANISMS, ScramKeys, scram_keys
from ottla.wire.messages.metadata_records import UserScramCredentialRecord

__all__ = ["CredentialError", "parse_credential"]

ITERATIONS_MAX = 16_384
_SALT_BYTES = 24
_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_ARGUMENT = re.compile(r"(?P<mechanism>[A-Z0-9-]+)=\[(?P<options>.*)\]", re.DOTALL)
_OPTIONS = ("name", "password", "iterations", "salt", "saltedpassword")


class CredentialError(ValueError):
    """The argument cannot be read. The message does not repeat it, because it contains a secret."""


def parse_credential(text: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """The record of an argument of --add-scram. Raises CredentialError."""
    match = _ARGUMENT.fullmatch(text.strip())
    if match is None:
        raise CredentialError("--add-scram must look like SCRAM-SHA-256=[name=alice,password=...].")
    mechanism = match["mechanism"]
    if mechanism not in MECHANISMS:
        raise CredentialError(f"--add-scram has the mechanism {mechanism}; it must be {' or '.join(MECHANISMS)}.")
    options = _options(match["options"])
    name = options.get("name")
    if not name:
        raise CredentialError("--add-scram must have name=..., the user of the credential.")
    if ("password" in options) == ("saltedpassword" in options):
        raise CredentialError(f"--add-scram for {name} must have one of password=... and saltedpassword=....")
    if "saltedpassword" in options and "salt" not in options:
        raise CredentialError(f"--add-scram for {name} has saltedpassword=..., so it must have salt=..., too.")
    iterations = _iterations(options.get("iterations", str(ITERATIONS_MIN)))
    salt = _decoded(options["salt"], "salt") if "salt" in options else random_bytes(_SALT_BYTES)
    if "password" in options:
        try:
            keys = scram_keys(mechanism, options["password"], salt=salt, iterations=iterations)
        except ValueError as error:
            raise CredentialError(f"The password of --add-scram for {name} cannot be used: {error}.") from None
    else:
        keys = _keys(MECHANISMS[mechanism], _decoded(options["saltedpassword"], "saltedpassword"), salt, iterations)
    return UserScramCredentialRecord(name=name, mechanism=_NUMBERS[mechanism], **keys._asdict())


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in text.split(","):
        key, separator, value = part.partition("=")
        if not separator or key.strip() not in _OPTIONS:
            raise CredentialError(f"--add-scram has options of the form name=value; they are {', '.join(_OPTIONS)}.")
        value = value.strip()
        options[key.strip()] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return options


def _iterations(text: str) -> int:
    if not text.isdecimal() or not ITERATIONS_MIN <= int(text) <= ITERATIONS_MAX:
        raise CredentialError(f"The iterations of --add-scram must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}.")
    return int(text)


def _decoded(text: str, option: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        # Not ASCII, or not base64.
        raise CredentialError(f"The option {option} of --add-scram must be in base64.") from None


def _keys(name: str, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramKeys(salt, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name), iterations)
