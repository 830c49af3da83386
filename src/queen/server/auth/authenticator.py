"""Authenticate requests by API key, token or ticket, and apply rate limits of keys."""

import re
import secrets
import time
from pathlib import Path
from typing import Final

import msgspec

from queen import errors
from queen.bounded import BoundedDict
from queen.server.auth.api_keys import Keys, digest_of
from queen.server.auth.jwt_tokens import Jwts
from queen.server.auth.known_keys import KnownKeys
from queen.server.auth.permissions import ANONYMOUS, ANYBODY, Caller
from queen.server.auth.revocations import Revocations
from queen.settings import Settings
from queen.store.keys import Keys as StoredKeys
from queen.wire.access import Ticket

_MOST_ALLOWANCES: Final = 10_000
_SHARE_SECONDS: Final = 0.1
"""Time for which a process reserves a part of a key's rate limit."""
_TICKET_SECONDS: Final = 30.0
_TICKET: Final = re.compile(r"qt_[0-9a-f]{64}")
_BEARER: Final = "Bearer "


class Authenticator:
    """Find the caller of each request, with as few statements as possible."""

    def __init__(self, settings: Settings, stored: StoredKeys) -> None:
        self.is_open = not settings.auth
        self._stored = stored
        grace = settings.key_grace_seconds
        has_keys = "keys" in settings.auth_kinds
        self._known: Final = (
            KnownKeys(stored, Path(settings.file_buffer_dir))
            if has_keys and settings.file_buffer_dir and grace
            else None
        )
        self.keys: Final = (
            Keys(stored, grace_seconds=grace, known=self._known) if has_keys else None
        )
        self.jwts: Final = Jwts(settings) if "jwt" in settings.auth_kinds else None
        self.revocations: Final = Revocations(self.keys)
        self._allowances = BoundedDict[str, int](_MOST_ALLOWANCES)
        self._limited_until = BoundedDict[str, float](_MOST_ALLOWANCES)
        self._offline = BoundedDict[str, tuple[float, float]](_MOST_ALLOWANCES)
        """Requests left per key, and since when, while the database is unavailable."""

    async def start(self) -> None:
        """Keep the keys for an outage up to date. Only one process of a server does this."""
        if self._known is not None:
            await self._known.refresh()
            self._known.start()

    async def close(self) -> None:
        if self._known is not None:
            await self._known.close()
        await self.revocations.close()
        if self.jwts is not None:
            await self.jwts.close()

    async def caller(self, authorization: str | None) -> Caller:
        """Return the caller of an Authorization header; raises Unauthorized."""
        if self.is_open:
            return ANYBODY
        if authorization is None:
            raise errors.Unauthorized(
                "this server requires the header Authorization: Bearer, with an API key or token"
            )
        # The scheme is case-insensitive; one space follows it.
        if authorization[: len(_BEARER)].lower() != _BEARER.lower():
            raise errors.Unauthorized(
                "the Authorization header must be Bearer with an API key or token"
            )
        text = authorization[len(_BEARER) :].strip(" ")
        if text.startswith("qk_"):
            if self.keys is None:
                raise errors.Unauthorized("this server does not accept API keys, only tokens")
            return await self.keys.caller(text)
        if self.jwts is None:
            raise errors.Unauthorized(
                "this server accepts API keys only. Create one with `queen token create`."
            )
        return await self.jwts.caller(text)

    async def caller_or_nobody(self, authorization: str | None) -> Caller:
        """Return the caller of a public route, where the header is optional."""
        if authorization is None and not self.is_open:
            return ANONYMOUS
        return await self.caller(authorization)

    async def spend(self, caller: Caller) -> None:
        """Count a request of a caller whose key has a rate limit; raises RateLimited."""
        rate, key_id = caller.requests_per_second, caller.key_id
        if rate is None or key_id is None:
            return
        left = self._allowances.get(key_id, 0)
        if left == 0:
            left = await self._take(key_id, rate)
        self._allowances[key_id] = left - 1

    async def _take(self, key_id: str, rate: float) -> int:
        now = time.monotonic()
        if (until := self._limited_until.get(key_id, 0)) > now:
            raise _limited(rate, until - now)
        try:
            granted, seconds = await self._stored.allow(
                key_id, rate=rate, wanted=max(1, int(rate * _SHARE_SECONDS))
            )
        except (errors.ServiceError, errors.OutcomeUnknown):
            return self._take_offline(key_id, rate, now)
        if not granted:
            self._limited_until[key_id] = time.monotonic() + seconds
            raise _limited(rate, seconds)
        # Other requests may have used some while this one waited.
        return self._allowances.get(key_id, 0) + granted

    def _take_offline(self, key_id: str, rate: float, now: float) -> int:
        """Allow one request, by the rule of ``queen.allow``. Each process counts separately."""
        most = max(rate, 1.0)
        left, at = self._offline.get(key_id, (most, now))
        left = min(most, left + rate * (now - at))
        if left < 1:
            self._offline[key_id] = left, now
            raise _limited(rate, (1 - left) / rate)
        self._offline[key_id] = left - 1, now
        return 1

    async def make_ticket(self, caller: Caller) -> Ticket:
        """Create a one-time ticket: browsers cannot send headers with a WebSocket."""
        text = f"qt_{secrets.token_hex(32)}"
        until = await self._stored.make_ticket(
            digest_of(text), msgspec.to_builtins(caller), seconds=_TICKET_SECONDS
        )
        return Ticket(ticket=text, expires_at=until)

    async def take_ticket(self, text: str) -> Caller:
        """Return the caller of a ticket, and use the ticket up; raises Unauthorized."""
        found = None
        if _TICKET.fullmatch(text):
            found = await self._stored.take_ticket(digest_of(text))
        caller = None if found is None else msgspec.convert(found, Caller)
        if caller is None or not await self.is_valid(caller):
            raise errors.Unauthorized("this ticket does not exist, has expired or was already used")
        return caller

    async def is_valid(self, caller: Caller) -> bool:
        """Whether the credentials of a long-lived connection are still accepted."""
        return await self.current(caller) is not None

    async def current(self, caller: Caller) -> Caller | None:
        """Return the caller with the present limits of its key; None if it is not accepted."""
        if caller.key_id is None:
            return caller if caller.until is None or caller.until > time.time() else None
        return None if self.keys is None else await self.keys.current(caller)


def _limited(rate: float, seconds: float) -> errors.RateLimited:
    return errors.RateLimited(
        f"this API key allows {rate:g} requests per second",
        retry_after=max(1, round(seconds + 0.5)),
    )
