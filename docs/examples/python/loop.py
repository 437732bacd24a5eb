# SPDX-License-Identifier: Apache-2.0
"""A reader and a writer as tasks of an event loop."""
import asyncio

import ambroker


async def read(sub):
    async for msg in sub:
        if bytes(msg) == b"last":
            return msg.seq


async def main():
    async with ambroker.aio.connect() as conn:
        reader = asyncio.create_task(read(await conn.subscribe("ticks")))
        for word in [b"tick"] * 9 + [b"last"]:
            await conn.publish("ticks", word)
        print(await reader)

asyncio.run(main())
