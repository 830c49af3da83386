"""Options and timeouts of connections."""

import msgspec

from queen import sql


class Connecting(msgspec.Struct, frozen=True, kw_only=True):
    """Options and timeouts of the connections to one database."""

    connections: int = 10
    is_pooled: bool = False
    """Through PgBouncer in transaction mode."""
    application_name: str = "queen"
    idle_seconds: float = 30
    """Unused connections are closed after this time. 0: never."""
    timeout_seconds: float = 10
    """To open a connection."""
    statement_seconds: float = 30
    """For the response to a call."""
    silence_seconds: float = 7
    """For the response to a call that is marked hot in its SQL file. Longer than `lock_timeout`."""
    max_retries: int = 3
    """Retries of a call that PostgreSQL aborted in favour of another."""
    is_warmed: bool = False
    """A new connection plans the hot calls first. Meanwhile calls wait for an older one."""

    @property
    def session(self) -> dict[str, str]:
        """Settings of each connection or, if that is impossible, of each transaction."""
        return {
            # A confirmed push is on disk, whatever the role and the database default to.
            "synchronous_commit": "on",
            # Ends the locks of a suspended process.
            "idle_in_transaction_session_timeout": "5s",
            "lock_timeout": "5s",
            "statement_timeout": f"{self.statement_seconds * 1000:.0f}ms",
            "jit": "off",
            # Plans are cached per connection, often while tables are small, and stay when they
            # grow.
            "enable_seqscan": "off",
        }

    def deadline_seconds(self, call: str) -> float:
        """When a connection is closed because a call got no response."""
        # PostgreSQL times out first. This deadline is for dead connections.
        patient = self.statement_seconds + 5
        return min(self.silence_seconds, patient) if call in sql.HOT else patient
