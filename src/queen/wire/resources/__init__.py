"""Queues, groups, messages, dead letters, traces, operations and processes."""

# ruff: noqa: F403 - this package is the sum of its modules
from queen.wire.resources.dead_letters import *
from queen.wire.resources.groups import *
from queen.wire.resources.messages import *
from queen.wire.resources.operations import *
from queen.wire.resources.paging import *
from queen.wire.resources.pipelines import *
from queen.wire.resources.queues import *
from queen.wire.resources.schedules import *
from queen.wire.resources.shards import *
from queen.wire.resources.system import *
from queen.wire.resources.traces import *
