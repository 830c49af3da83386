"""A web application that pushes messages and handles them. Run: uvicorn examples.fastapi_app:app"""

from typing import Annotated

from fastapi import Depends, FastAPI
from msgspec import Struct

from queen import Message, Queen


class Order(Struct):
    id: int
    total: int


queen = Queen.from_env()
orders = queen.queue("web-orders", type=Order)
billed: list[int] = []


@orders.group("billing").handler
async def bill(message: Message[Order]) -> None:
    billed.append(message.data.id)


app = FastAPI(lifespan=queen.lifespan(workers=True))


@app.post("/orders/{id}")
async def place(id: int, total: int, queue: Annotated[Queen, Depends(queen.dependency)]) -> str:
    (pushed,) = await queue.queue("web-orders").push([{"data": Order(id=id, total=total)}])
    return pushed.status


@app.get("/billed")
async def show() -> list[int]:
    return billed
