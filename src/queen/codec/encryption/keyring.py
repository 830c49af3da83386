"""The master keys in the environment of a process."""

import os
import stat
from pathlib import Path

from queen import errors
from queen.codec.encryption import keys as encryption
from queen.codec.encryption.keys import Keyring


def keyring_from(*, file: str | None, keys: str | None, key: str | None) -> Keyring:
    """The configured master keys. Raises BadSettings if one is malformed."""
    found: dict[str, bytes] = {}
    if file is not None:
        found |= encryption.parse_keys(_read_private(file), where="QUEEN_ENCRYPTION_KEYS_FILE")
        if not found:
            raise errors.BadSettings("QUEEN_ENCRYPTION_KEYS_FILE: the file contains no key")
    for text, where in ((keys, "QUEEN_ENCRYPTION_KEYS"), (_default(key), "QUEEN_ENCRYPTION_KEY")):
        for id_, secret in encryption.parse_keys(text or "", where=where).items():
            if found.setdefault(id_, secret) != secret:
                raise errors.BadSettings(f"{where}: another key has the id {id_}")
    return Keyring(found)


def keyring_of_environment() -> Keyring:
    """The master keys of a process that reads no settings, such as a Spark executor."""
    return keyring_from(
        file=os.environ.get("QUEEN_ENCRYPTION_KEYS_FILE") or None,
        keys=os.environ.get("QUEEN_ENCRYPTION_KEYS"),
        key=os.environ.get("QUEEN_ENCRYPTION_KEY") or None,
    )


def _default(key: str | None) -> str | None:
    if key is None:
        return None
    if "," in key or "\n" in key or not key.strip():
        raise errors.BadSettings("QUEEN_ENCRYPTION_KEY: the key must have 64 hexadecimal digits")
    return f"default:{key.strip()}"


def _read_private(name: str) -> str:
    path = Path(name)
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise errors.BadSettings(
                "QUEEN_ENCRYPTION_KEYS_FILE: other users can access the file; run chmod 600"
            )
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise errors.BadSettings("QUEEN_ENCRYPTION_KEYS_FILE cannot be read") from error
