"""How a database is connected to, and how long is waited for what."""

import msgspec

from queen import sql


class Connecting(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect, and how long to wait for what."""

    connections: int = 10
    is_pooled: bool = False
    """Through PgBouncer in transaction mode."""
    application_name: str = "queen"
    idle_seconds: float = 30
    """A connection that was not used for so long is closed; 0: never."""
    timeout_seconds: float = 10
    """For a connection."""
    statement_seconds: float = 30
    """For the answer to a call."""
    silence_seconds: float = 7
    """For the answer to a call that is marked hot in its SQL file: longer than `lock_timeout`."""
    max_retries: int = 3
    """Of a call that PostgreSQL gave up so that another could go on."""
    is_warmed: bool = False
    """A new connection plans what is hot before it is lent, and calls wait for an old one."""

    @property
    def session(self) -> dict[str, str]:
        """What a connection sets for itself, or where it cannot, each transaction."""
        return {
            # A confirmed push is on disk whatever the role or the database defaults to.
            "synchronous_commit": "on",
            # Nobody waits long for a lock that a stopped process holds.
            "idle_in_transaction_session_timeout": "5s",
            "lock_timeout": "5s",
            "statement_timeout": f"{self.statement_seconds * 1000:.0f}ms",
            "jit": "off",
            # Plans are made once per connection, often while tables are small, and kept when they
            # grow.
            "enable_seqscan": "off",
        }

    def deadline_seconds(self, call: str) -> float:
        """When a connection is given up that has not answered a call."""
        # PostgreSQL gives up first; this is for the connection that has died.
        patient = self.statement_seconds + 5
        return min(self.silence_seconds, patient) if call in sql.HOT else patient
