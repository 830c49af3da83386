"""Who is let in: keys, tokens of others, tickets, and how many requests a key may make."""

import re
import secrets
import time
from pathlib import Path
from typing import Final

import msgspec

from queen import errors
from queen.server.auth.api_keys import Keys, digest_of
from queen.server.auth.jwt_tokens import Jwts
from queen.server.auth.known_keys import KnownKeys
from queen.server.auth.permissions import ANYBODY, NOBODY, Caller
from queen.server.auth.revocations import Revocations
from queen.settings import Settings
from queen.store.keys import Keys as StoredKeys
from queen.wire.access import Ticket

_MOST_ALLOWANCES: Final = 10_000
_SHARE_SECONDS: Final = 0.1
"""For how long a process takes requests out of a key's allowance at once."""
_TICKET_SECONDS: Final = 30.0
_TICKET: Final = re.compile(r"qt_[0-9a-f]{64}")
_BEARER: Final = "Bearer "


class Authenticator:
    """Says of each request who makes it; asks the database as seldom as it can."""

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
        self._allowances: dict[str, int] = {}
        self._refused_until: dict[str, float] = {}
        self._alone: dict[str, tuple[float, float]] = {}
        """Requests left per key, and since when, while the database cannot be asked."""

    async def start(self) -> None:
        """Keep the keys for an outage up to date: for one process of a server."""
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
        """Who calls, by the Authorization header; raises Unauthorized."""
        if self.is_open:
            return ANYBODY
        if authorization is None:
            raise errors.Unauthorized("this server wants Authorization: Bearer and a key or token")
        # The scheme is case-insensitive; one space follows it.
        if authorization[: len(_BEARER)].lower() != _BEARER.lower():
            raise errors.Unauthorized("Authorization must be Bearer and a key or token")
        text = authorization[len(_BEARER) :].strip(" ")
        if text.startswith("qk_"):
            if self.keys is None:
                raise errors.Unauthorized("this server takes no keys")
            return await self.keys.caller(text)
        if self.jwts is None:
            raise errors.Unauthorized("this server takes keys alone")
        return await self.jwts.caller(text)

    async def caller_or_nobody(self, authorization: str | None) -> Caller:
        """Who calls a public route: whoever does not say so is nobody."""
        if authorization is None and not self.is_open:
            return NOBODY
        return await self.caller(authorization)

    async def spend(self, caller: Caller) -> None:
        """Count a request of a caller whose key has a limit; raises RateLimited."""
        rate, key_id = caller.requests_per_second, caller.key_id
        if rate is None or key_id is None:
            return
        left = self._allowances.get(key_id, 0)
        if left == 0:
            left = await self._take(key_id, rate)
        self._allowances[key_id] = left - 1

    async def _take(self, key_id: str, rate: float) -> int:
        now = time.monotonic()
        if (until := self._refused_until.get(key_id, 0)) > now:
            raise _limited(rate, until - now)
        try:
            granted, seconds = await self._stored.allow(
                key_id, rate=rate, wanted=max(1, int(rate * _SHARE_SECONDS))
            )
        except (errors.ServiceError, errors.OutcomeUnknown):
            return self._take_alone(key_id, rate, now)
        if not granted:
            self._refused_until[key_id] = time.monotonic() + seconds
            raise _limited(rate, seconds)
        for known in (self._allowances, self._refused_until, self._alone):
            while len(known) > _MOST_ALLOWANCES:
                known.pop(next(iter(known)))
        # Others may have taken some while this one waited.
        return self._allowances.get(key_id, 0) + granted

    def _take_alone(self, key_id: str, rate: float, now: float) -> int:
        """One request, by the rule of ``queen.allow``: each process counts for itself meanwhile."""
        most = max(rate, 1.0)
        left, at = self._alone.get(key_id, (most, now))
        left = min(most, left + rate * (now - at))
        if left < 1:
            self._alone[key_id] = left, now
            raise _limited(rate, (1 - left) / rate)
        self._alone[key_id] = left - 1, now
        return 1

    async def make_ticket(self, caller: Caller) -> Ticket:
        """A ticket that stands for this caller once: a browser's WebSocket sends no headers."""
        text = f"qt_{secrets.token_hex(32)}"
        until = await self._stored.make_ticket(
            digest_of(text), msgspec.to_builtins(caller), seconds=_TICKET_SECONDS
        )
        return Ticket(ticket=text, expires_at=until)

    async def take_ticket(self, text: str) -> Caller:
        """Who a ticket stands for, which is then used up; raises Unauthorized."""
        told = None
        if _TICKET.fullmatch(text):
            told = await self._stored.take_ticket(digest_of(text))
        caller = None if told is None else msgspec.convert(told, Caller)
        if caller is None or not await self.is_valid(caller):
            raise errors.Unauthorized("this ticket is not known, is too old or was used")
        return caller

    async def is_valid(self, caller: Caller) -> bool:
        """Whether somebody who was let in a while ago still is: for connections that last."""
        if caller.key_id is None:
            return caller.until is None or caller.until > time.time()
        return self.keys is not None and await self.keys.is_valid(caller)


def _limited(rate: float, seconds: float) -> errors.RateLimited:
    return errors.RateLimited(
        f"this key allows {rate:g} requests a second", retry_after=max(1, round(seconds + 0.5))
    )
