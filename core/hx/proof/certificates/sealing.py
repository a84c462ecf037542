"""Certificate files: JSON with a seal over all the rest of it.

The seal is a SHA-256 digest, which shows damage, or with a key an HMAC, which nobody can make who
lacks the key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from hx.errors import CertificateError, UsageError

FORMAT = "1"
DIGEST, SIGNED = "sha256", "hmac-sha256"
Document = dict[str, Any]


def sealed(document: Document, key: bytes | None = None) -> str:
    """Return the text of a certificate; it is signed if there is a key."""
    body = {"hx_certificate": FORMAT, **document}
    method = DIGEST if key is None else SIGNED
    seal = {"method": method, "value": _seal(body, method, key)}
    return json.dumps({**body, "seal": seal}, indent=1, allow_nan=False) + "\n"


def read(path: Path, key: bytes | None = None) -> tuple[Document, bool]:
    """Read a certificate; also return True if it is signed, whether or not a key is given.

    With a key, it has to be signed with that key.
    """
    try:
        found = json.loads(path.read_bytes())
        schema, seal = found.pop("hx_certificate"), found.pop("seal")
        method, value = str(seal["method"]), str(seal["value"])
    except OSError as problem:
        raise CertificateError(
            f"{path} cannot be read", why=str(problem.strerror or problem).lower()
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CertificateError(
            f"{path} is not a certificate, or is truncated",
            hint="hx export SPEC --certificate writes one",
        ) from None
    if schema != FORMAT:
        raise CertificateError(
            f"{path} is a certificate in format {schema}, and this hx reads {FORMAT}",
            hint="take the version of hx that wrote it, or export the model again",
        )
    if key is not None and method != SIGNED:
        raise CertificateError(
            f"{path} is not signed, but a key is given",
            why="anybody may have written it",
            hint="hx export --certificate --sign-with KEY signs it",
        )
    body = {"hx_certificate": schema, **found}
    if key is not None and not hmac.compare_digest(_seal(body, SIGNED, key), value):
        raise CertificateError(
            f"{path} is not signed with this key",
            why="it was signed with another key, or was changed afterwards",
        )
    if method not in (DIGEST, SIGNED) or (method == DIGEST and _seal(body, DIGEST, None) != value):
        raise CertificateError(
            f"{path} is damaged", why="its contents do not have the checksum that it states"
        )
    return found, method == SIGNED


def read_key(path: Path) -> bytes:
    """Read a key: all bytes of a file, at least 16 of them."""
    try:
        key = path.read_bytes()
    except OSError as problem:
        raise UsageError(
            f"the key {path} cannot be read", why=str(problem.strerror or problem).lower()
        ) from None
    if len(key) < 16:
        raise UsageError(
            f"the key {path} has {len(key)} bytes, and needs at least 16",
            hint=f"openssl rand -out {path} 32 writes a new one",
        )
    return key


def _seal(body: Document, method: str, key: bytes | None) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    if method == SIGNED:
        return hmac.new(key or b"", text.encode(), hashlib.sha256).hexdigest()
    return hashlib.sha256(text.encode()).hexdigest()
