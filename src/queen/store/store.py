"""All operations of one database in one object. There is one per database, never a global."""

from typing import Any, Self

from queen.store.audit import Audit
from queen.store.browse import Browse
from queen.store.cluster.definitions import Definitions
from queen.store.cluster.forwards import Forwards
from queen.store.cluster.homes import Homes
from queen.store.cluster.shares import Shares
from queen.store.connection.database import Database
from queen.store.connection.options import Connecting
from queen.store.data_keys import DataKeys
from queen.store.dead_letters import DeadLetters
from queen.store.groups import Groups
from queen.store.instances import Instances
from queen.store.keys import Keys
from queen.store.messages import Messages
from queen.store.operations import Operations
from queen.store.outbox import Outbox
from queen.store.pipelines import Pipelines
from queen.store.queues import Queues
from queen.store.results import Results
from queen.store.schedules import Schedules
from queen.store.traces import Traces
from queen.store.workflows import Workflows


class Store:
    """A database with the whole schema."""

    def __init__(self, database: Database, *, defaults: dict[str, Any] | None = None) -> None:
        self.database = database
        self.messages = Messages(database)
        self.queues = Queues(database, defaults=defaults)
        self.groups = Groups(database)
        self.dead_letters = DeadLetters(database)
        self.browse = Browse(database)
        self.traces = Traces(database)
        self.operations = Operations(database)
        self.instances = Instances(database)
        self.keys = Keys(database)
        self.audit = Audit(database)
        self.outbox = Outbox(database)
        self.schedules = Schedules(database)
        self.workflows = Workflows(database)
        self.pipelines = Pipelines(database)
        self.data_keys = DataKeys(database)
        self.results = Results(database)
        self.homes = Homes(database)
        self.forwards = Forwards(database)
        self.definitions = Definitions(database)
        self.shares = Shares(database)

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        connecting: Connecting | None = None,
        defaults: dict[str, Any] | None = None,
        is_away: bool = False,
    ) -> Self:
        database = await Database.open(dsn, connecting, is_away=is_away)
        return cls(database, defaults=defaults)

    async def close(self) -> None:
        await self.database.close()
