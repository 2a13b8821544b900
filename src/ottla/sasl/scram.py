"""SCRAM (RFC 5802, RFC 7677): a client proves that it knows a password, without sending it.

    client   n,,n=alice,r=<client nonce>
    server   r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    client   c=biws,r=<both nonces>,p=<proof>
    server   v=<signature>

The server keeps a salt and two keys for each user, with which it can check a proof but not make one. The signature
shows the client that the server has these keys.

Three rules that other implementations have broken: the nonce of the last message must be exactly the one that the
server sent (CVE-2024-56128), proofs are compared in constant time, and an exchange allows one attempt. A server answers
an unknown user with an invented salt, so that the answer does not reveal which users exist. A client limits the
iterations, because a hostile server could keep it busy for hours.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from ottla.model.deferred import Deferred
from ottla.sasl.exchange import SaslError
from ottla.sasl.saslprep import saslprep

__all__ = [
    "ITERATIONS_MIN",
    "MECHANISMS",
    "InventedKeys",
    "ScramClient",
    "ScramKeys",
    "ScramServer",
    "TokenCredential",
    "invented_keys",
    "scram_keys",
]

# The hash of each mechanism.
MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

ITERATIONS_MIN = 4096
CLIENT_ITERATIONS_MAX = 250_000
_NONCE_BYTES = 24
# Unauthenticated clients send messages, too, and parsing a long message takes long.
MESSAGE_BYTES_MAX = 8_192

_SASL_NAME = r"(?:[^=,\0]|=2C|=3D)+"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authorization_id>{_SASL_NAME}))?,)"
    rf"(?P<bare>(?:m=[^,]*,)?n=(?P<user>{_SASL_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,(?P<extensions>.+))?)",
    re.DOTALL,
)
_SERVER_FIRST = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?", re.DOTALL)
_CLIENT_FINAL = re.compile(
    r"(?P<without_proof>c=(?P<channel>[^,]*),r=(?P<nonce>[^,]+)(?:,[^,]+)*?),p=(?P<proof>[^,]+)", re.DOTALL
)


class ScramKeys(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Without the keys: the value may be part of an error message."""
        return f"ScramKeys(iterations={self.iterations})"


class InventedKeys(NamedTuple):
    """Salt and iterations for an unknown user: the answer looks like that for an existing user."""

    salt: bytes
    iterations: int


def scram_keys(mechanism: str, password: str, *, salt: bytes, iterations: int) -> ScramKeys:
    """The keys that a server keeps for a password. Deliberately slow."""
    name = MECHANISMS[mechanism]
    salted = hashlib.pbkdf2_hmac(name, saslprep(password).encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramKeys(salt, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name), iterations)


class TokenCredential(NamedTuple):
    """A delegation token (KIP-48): its id stands for the user, and its HMAC for the password."""

    keys: ScramKeys
    owner: str
    expires_ms: int
    # The groups of the owner when the token was created.
    groups: tuple[str, ...] = ()


class _Step(Enum):
    FIRST = auto()
    FINAL = auto()
    OVER = auto()


class ScramServer:
    """`find_keys` returns the keys of a user, and `find_token` a delegation token by its id, or a Deferred of these.

    Both return None for an unknown user or id. `invent` makes the salt and the iterations of an unknown user.
    `nonce` is for tests.
    """

    def __init__(
        self,
        mechanism: str,
        find_keys: Callable[[str], ScramKeys | Deferred[ScramKeys | None] | None],
        *,
        find_token: Callable[[str], TokenCredential | Deferred[TokenCredential | None] | None] | None = None,
        invent: Callable[[str], InventedKeys] | None = None,
        nonce: str | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._hash = MECHANISMS[mechanism]
        self._find_keys = find_keys
        self._find_token = find_token
        self._invent = invent or invented_keys
        self._server_nonce = nonce or _new_nonce()
        self._step = _Step.FIRST
        self._keys: ScramKeys | None = None
        self._nonce = ""
        self._gs2_header = ""
        self._messages = ""
        self.extensions: dict[str, str] = {}
        self.is_complete = False
        self.user = ""
        self.groups: tuple[str, ...] = ()
        self.expires_ms: int | None = None
        self.has_token = False

    def evaluate(self, token: bytes) -> bytes | Deferred[bytes]:
        step, self._step = self._step, _Step.OVER
        if len(token) > MESSAGE_BYTES_MAX:
            raise SaslError("A message of SCRAM is too long.")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise SaslError("A message of SCRAM must be UTF-8.") from None
        if step is _Step.FIRST:
            return self._begin(text)
        if step is _Step.FINAL:
            return self._verify(text).encode()
        raise SaslError("The exchange is over.")

    def _begin(self, text: str) -> bytes | Deferred[bytes]:
        first = _CLIENT_FIRST.fullmatch(text)
        if first is None:
            raise SaslError("The first message of SCRAM is malformed.")
        user, authorization_id = _decoded_name(first["user"]), first["authorization_id"]
        if authorization_id is not None and _decoded_name(authorization_id) != user:
            raise SaslError("A client that asks for another authorization id than its user is refused.")
        self.extensions = dict(part.partition("=")[::2] for part in (first["extensions"] or "").split(",") if part)
        outcome = self._find(user)
        if isinstance(outcome, Deferred):
            return outcome.then(lambda keys: self._challenge(first, user, keys))
        return self._challenge(first, user, outcome)

    def _challenge(self, first: re.Match[str], user: str, keys: ScramKeys | None) -> bytes:
        self._keys, self._step = keys, _Step.FINAL
        # Computed for known users, too, so that the time of the answer does not reveal which users exist.
        invented = self._invent(user)
        salt, iterations = invented if keys is None else (keys.salt, keys.iterations)
        self._gs2_header, self._nonce = first["gs2"], first["nonce"] + self._server_nonce
        server_first = f"r={self._nonce},s={_base64(salt)},i={iterations}"
        self._messages = f"{first['bare']},{server_first}"
        return server_first.encode()

    def _find(self, name: str) -> ScramKeys | Deferred[ScramKeys | None] | None:
        if self._find_token is None or self.extensions.get("tokenauth", "").lower() != "true":
            self.user = name
            return self._find_keys(name)
        token = self._find_token(name)
        return token.then(self._use_token) if isinstance(token, Deferred) else self._use_token(token)

    def _use_token(self, token: TokenCredential | None) -> ScramKeys | None:
        if token is None:
            return None
        self.user, self.groups, self.expires_ms, self.has_token = token.owner, token.groups, token.expires_ms, True
        return token.keys

    def _verify(self, text: str) -> str:
        final = _CLIENT_FINAL.fullmatch(text)
        if final is None:
            raise SaslError("The last message of SCRAM is malformed.")
        if final["channel"] != _base64(self._gs2_header.encode()):
            raise SaslError("The last message of SCRAM repeats another header than the first message had.")
        if not hmac.compare_digest(final["nonce"].encode(), self._nonce.encode()):
            raise SaslError("The nonce of the last message is not the one that this server sent.")
        proof = _decoded(final["proof"])
        # The proof of an unknown user is checked, too, and fails.
        keys = self._keys or _unusable_keys(self._hash)
        message = f"{self._messages},{final['without_proof']}".encode()
        client_key = _xor(proof, hmac.digest(keys.stored_key, message, self._hash))
        is_proven = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), keys.stored_key)
        if not is_proven or self._keys is None:
            raise SaslError(
                f"Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{self._mechanism}"
            )
        self.is_complete = True
        return f"v={_base64(hmac.digest(keys.server_key, message, self._hash))}"


class ScramClient:
    def __init__(
        self,
        mechanism: str,
        user: str,
        password: str,
        *,
        extensions: dict[str, str] | None = None,
        nonce: str | None = None,
    ) -> None:
        self._hash = MECHANISMS[mechanism]
        self._password = password
        self._nonce = nonce or _new_nonce()
        extra = "".join(f",{name}={value}" for name, value in (extensions or {}).items())
        self._bare = f"n={_encoded_name(saslprep(user))},r={self._nonce}{extra}"
        self._expected_signature: bytes | None = None
        self.is_complete = False

    def begin(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        text = challenge.decode(errors="replace")
        if self._expected_signature is None:
            return self._prove(text)
        self._check_server(text)
        return None

    def _prove(self, text: str) -> bytes:
        first = _SERVER_FIRST.fullmatch(text)
        if first is None:
            raise SaslError("The server's first message of SCRAM is malformed.")
        if not first["nonce"].startswith(self._nonce) or first["nonce"] == self._nonce:
            raise SaslError("The server's nonce does not begin with the one of this client.")
        iterations = int(first["iterations"])
        if not ITERATIONS_MIN <= iterations <= CLIENT_ITERATIONS_MAX:
            raise SaslError(
                f"The server demands {iterations} iterations; "
                f"this client accepts {ITERATIONS_MIN} to {CLIENT_ITERATIONS_MAX}."
            )
        salted = hashlib.pbkdf2_hmac(self._hash, saslprep(self._password).encode(), _decoded(first["salt"]), iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c=biws,r={first['nonce']}"
        message = f"{self._bare},{text},{without_proof}".encode()
        proof = _xor(client_key, hmac.digest(stored_key, message, self._hash))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._expected_signature = hmac.digest(server_key, message, self._hash)
        return f"{without_proof},p={_base64(proof)}".encode()

    def _check_server(self, text: str) -> None:
        if text.startswith("e="):
            raise SaslError(f"The server refused the proof: {text[2:]}")
        assert self._expected_signature is not None
        if not text.startswith("v=") or not hmac.compare_digest(_decoded(text[2:]), self._expected_signature):
            raise SaslError("The server does not know the password: its signature is wrong.")
        self.is_complete = True


# A secret of this process, from which invented salts are derived: they look like stored salts.
_INVENTION_KEY = os.urandom(32)


def invented_keys(user: str) -> InventedKeys:
    """The answer to an unknown user by a server that has no stored credentials."""
    return InventedKeys(hmac.digest(_INVENTION_KEY, user.encode(), "sha256")[:20], ITERATIONS_MIN)


def _unusable_keys(hash_name: str) -> ScramKeys:
    size = hashlib.new(hash_name).digest_size
    return ScramKeys(b"", bytes(size), bytes(size), ITERATIONS_MIN)


def _new_nonce() -> str:
    return base64.b64encode(os.urandom(_NONCE_BYTES)).decode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslError("A message of SCRAM contains malformed base64.") from None


def _decoded_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _encoded_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise SaslError("The proof has a wrong length.")
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
