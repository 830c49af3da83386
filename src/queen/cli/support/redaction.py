"""Remove secrets from texts that leave the machine."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote

from queen.settings import SECRETS

MASK: Final = "****"
_OURS: Final = ("QUEEN_TOKEN", "QUEEN_RELAY_DSN", "PGPASSWORD", "DATABASE_URL")
_SHAPES: Final = (
    # An API key, a JSON Web Token, 32 or more bytes in hexadecimal.
    (re.compile(r"\bqk_[A-Za-z0-9]+_[A-Za-z0-9_-]+"), MASK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), MASK),
    (re.compile(r"\b[0-9a-fA-F]{64,}\b"), MASK),
    # Who and by what password, in an address.
    (re.compile(r"(?<=://)[^/\s\"'@]*@"), f"{MASK}@"),
    (
        re.compile(
            r"(?i)(password|passwd|secret|token|authorization)(\"?\s*[=:]\s*\"?)"
            r"(bearer )?[^\s,;\"'&}\]]+"
        ),
        rf"\1\2{MASK}",
    ),
)
_SHORTEST: Final = 4
"""Shorter words stand everywhere, and hide nothing."""


class Redaction:
    """Knows the secrets of this environment by heart, and others by their shape."""

    def __init__(self, environ: Mapping[str, str] | None = None, more: Iterable[str] = ()) -> None:
        values = os.environ if environ is None else environ
        known = {values[name] for name in (*SECRETS, *_OURS) if values.get(name)} | set(more)
        known |= {found for text in known for found in _passwords(text)}
        spelt = {form for text in known for form in (text, quote(text, safe=""), unquote(text))}
        self._known = sorted(
            (text for text in spelt if len(text) >= _SHORTEST), key=len, reverse=True
        )

    def __call__(self, text: str) -> str:
        for secret in self._known:
            text = text.replace(secret, MASK)
        for shape, mask in _SHAPES:
            text = shape.sub(mask, text)
        return text


def _passwords(text: str) -> list[str]:
    """What an address or a connection string says after its user's name; several keys of a ring."""
    found = re.findall(r"://[^/\s:@]*:([^/\s@]+)@", text)
    found += re.findall(r"(?i)\bpassword\s*=\s*'?([^\s']+)", text)
    found += [each.partition(":")[2] for each in re.split(r"[,\s]+", text) if ":" in each]
    return [each for each in found if each and "/" not in each]
