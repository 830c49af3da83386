"""`queen relay`: push messages from the outbox table of an application to a server."""

import asyncio
import logging
import os
import signal
import sys
from typing import Annotated

import typer

from queen import errors
from queen.cli.support.client import Server, client
from queen.cli.support.databases import Dsn, DsnFile, database, with_tls
from queen.cli.support.output import say


def relay(
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    init: Annotated[
        bool, typer.Option("--init", help="Create the outbox in that database, then exit.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Push pending messages, then exit.")] = False,
    server: Server = None,
) -> None:
    """
    Push messages from an application's outbox table, until stopped.

    Each message arrives exactly once, also after crashes. If you run several relays, one is active
    and the others stand by. Name the database by QUEEN_RELAY_DSN, --dsn-file or --dsn.

    Example: queen relay --dsn-file /run/secrets/shop-dsn
    """
    where = database(dsn, dsn_file, variable="QUEEN_RELAY_DSN")
    if where is None and (named := os.environ.get("QUEEN_RELAY_DSN")):
        where = with_tls(named)
    if where is None:
        raise errors.BadRequest("no database: give --dsn-file or --dsn, or set QUEEN_RELAY_DSN")
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s")
    logging.getLogger("queen.relay").setLevel(logging.INFO)
    if init:
        from queen.store.relay import init as make

        asyncio.run(make(where))
        say("the outbox is ready: applications can call queen.enqueue")
        return
    asyncio.run(_relay(where, server, is_once=once))


async def _relay(dsn: str, server: str | None, *, is_once: bool) -> None:
    from queen.cli.relay.pump import Relaying
    from queen.store.connection.database import Database
    from queen.store.connection.notifications import News, Notifications
    from queen.store.connection.options import Connecting
    from queen.store.relay import Relay

    database = await Database.open(dsn, Connecting(connections=2, application_name="queen relay"))
    try:
        outbox = Relay(database)
        await outbox.check()
        async with client(server) as queen:
            relaying = Relaying(outbox, queen)
            if is_once:
                while await relaying.step():
                    pass
                say(f"{relaying.moved} messages were pushed")
                return

            def heard(news: News | None) -> None:
                if news is None or news.is_outbox:
                    relaying.wake()

            notifications = Notifications(
                dsn, debounce_seconds=0.01, heard=heard, application_name="queen relay"
            )
            notifications.start()
            relaying.start()
            say(f"relaying to {', '.join(queen.config.urls)}")
            await _told_to_stop()
            await relaying.close()
            await notifications.close()
            say(f"{relaying.moved} messages were pushed")
    finally:
        await database.close()


async def _told_to_stop() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
