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
    # An API key, a JSON Web Token, or at least 32 bytes in hexadecimal.
    (re.compile(r"\bqk_[A-Za-z0-9]+_[A-Za-z0-9_-]+"), MASK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), MASK),
    (re.compile(r"\b[0-9a-fA-F]{64,}\b"), MASK),
    # User and password in a URL.
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
"""Shorter secrets are common words, and masking them would hide nothing."""


class Redaction:
    """Masks the secrets of this environment by value, and other secrets by their format."""

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
    """Return the passwords in a URL or connection string, or the keys of a key ring."""
    found = re.findall(r"://[^/\s:@]*:([^/\s@]+)@", text)
    found += re.findall(r"(?i)\bpassword\s*=\s*'?([^\s']+)", text)
    found += [each.partition(":")[2] for each in re.split(r"[,\s]+", text) if ":" in each]
    return [each for each in found if each and "/" not in each]
