"""The cost of settling depends on deliveries, not on messages."""

import pytest

from queen.store.messages import Settlement
from tests.sql.interleavings.lab import Lab
from tests.sql.interleavings.scene import take
from tests.sql.interleavings.verbs import push

WRITTEN = """
select n_tup_ins + n_tup_upd + n_tup_del
from pg_stat_xact_user_tables
where schemaname = 'queen' and relname = 'deliveries'
"""


@pytest.mark.parametrize("is_ordered", [True, False])
async def test_completed_messages_beside_a_failed_one_are_settled_together(
    dsn: str, is_ordered: bool
) -> None:
    async with Lab.open(dsn) as lab:
        scene = await lab.scene(is_ordered=is_ordered, messages=0, is_claimed=False)
        await push(*["x"] * 400)(scene, lab.store)
        (lease,) = await take(scene, lab.store, batch=400)
        kinds = {offset: "completed" for offset in lease.offsets[::2]} | {399: "failed"}
        settlements = [
            Settlement(lease.delivery_id, lease.token, None, offset, kind, None, None)
            for offset, kind in kinds.items()
        ]

        client = lab.clients[0]
        async with client.connection.transaction():
            before = await client.connection.fetchval(WRITTEN)
            settled = await client.store.messages.nack(settlements)
            written = await client.connection.fetchval(WRITTEN) - before

        assert [row["code"] for row in settled] == [None] * 201
        # One for all completed messages, and those of the failure.
        assert written <= 4
        scene.settled.update(("x", offset) for offset in lease.offsets[::2])
        await lab.check(scene)
