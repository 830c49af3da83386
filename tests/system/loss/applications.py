"""
Run applications with their own transactions in a separate process, so that only their database load
affects others.

Usage: `python -m tests.system.loss.applications DSN SECONDS`. The last line of output is a JSON
list of the committed messages.
"""

import asyncio
import json
import random
import sys
import time

import asyncpg

APPLICATIONS = 32


async def apply(dsn: str, number: int, seconds: float, committed: set[str]) -> None:
    """One application: transactions of a few messages, a third rolled back, some kept open."""
    chance = random.Random(number)
    connection = await asyncpg.connect(dsn)
    deadline = time.perf_counter() + seconds
    turn = 0
    while time.perf_counter() < deadline:
        transaction = connection.transaction()
        await transaction.start()
        mine = [f"{number}.{turn}.{n}" for n in range(chance.randint(1, 5))]
        for each in mine:
            await connection.execute(
                "select queen.enqueue('orders', $1, partition => $2)",
                json.dumps(each),
                f"p{chance.randrange(8)}",
            )
        if chance.random() < 0.05:
            await asyncio.sleep(chance.uniform(0.5, min(3.0, seconds / 3)))  # Keep it open.
        if chance.random() < 1 / 3:
            await transaction.rollback()
        else:
            await transaction.commit()
            committed.update(mine)
        turn += 1
        await asyncio.sleep(0.1)  # Sets the rate of the load. It waits for no condition.
    await connection.close()


async def main(dsn: str, seconds: float) -> None:
    committed: set[str] = set()
    async with asyncio.TaskGroup() as group:
        for number in range(APPLICATIONS):
            group.create_task(apply(dsn, number, seconds, committed))
    print(json.dumps(sorted(committed)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
