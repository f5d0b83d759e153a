"""An MCP server of a shop whose bank makes mistakes: `pay`, `refund`, and two reads that tell what was booked.

    python shop_server.py BOOK [SECONDS]

It moves no money. BOOK is a file of JSON lines, one for each booking and each look, on disk before the answer goes out;
every answer takes SECONDS, so that there is time to pull a plug. A payment for an order whose name begins with `twice`
is booked twice, and the answer says that all is well.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TypedDict

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations


class Paid(TypedDict):
    """What the bank says of a payment."""

    payment: str
    status: str


class Booked(TypedDict):
    """What the book says of an order or of a payment."""

    paid: int
    """In cents, what was given back taken off."""


class Book:
    """All that was booked, in its order."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, what: str, **details: Any) -> int:
        """Its place, once it is on disk."""
        line = json.dumps({"what": what, **details}) + "\n"
        with self._path.open("a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        return len(self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """What stands in it."""
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []

    def open(self, **like: Any) -> int:
        """What was booked with these details and not given back, in cents."""
        found = [line for line in self.lines() if all(line.get(name) == value for name, value in like.items())]
        signs = {"paid": 1, "refunded": -1}
        return sum(signs.get(line["what"], 0) * line.get("amount", 0) for line in found)


def shop_server(book: Book, seconds: float) -> MCPServer[object]:
    """The server over this book."""
    server: MCPServer[object] = MCPServer("shop", version="1", log_level="ERROR")

    @server.tool()
    def pay(order: str, amount: int) -> Paid:
        """Take the money for an order, in cents."""
        payment = f"pay_{len(book.lines()) + 1}"
        for _ in range(2 if order.startswith("twice") else 1):
            book.write("paid", payment=payment, order=order, amount=amount)
        time.sleep(seconds)
        return Paid(payment=payment, status="succeeded")

    @server.tool()
    def refund(payment: str) -> Paid:
        """Give back all that is left of a payment."""
        left = book.open(payment=payment)
        if left == 0:
            raise ToolError(f"nothing is left of `{payment}`")
        order = next(line["order"] for line in book.lines() if line.get("payment") == payment)
        book.write("refunded", payment=payment, order=order, amount=left)
        time.sleep(seconds)
        return Paid(payment=payment, status="refunded")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def read_order(order: str) -> Booked:
        """Read what was booked for an order."""
        book.write("looked", order=order)
        time.sleep(seconds)
        return Booked(paid=book.open(order=order))

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def read_payment(payment: str) -> Booked:
        """Read what is left of a payment."""
        book.write("looked", payment=payment)
        time.sleep(seconds)
        return Booked(paid=book.open(payment=payment))

    return server


def main() -> None:
    """Serve on stdin and stdout until stdin ends."""
    match sys.argv[1:]:
        case [book]:
            seconds = 0.0
        case [book, told]:
            seconds = float(told)
        case _:
            sys.exit("usage: shop_server.py BOOK [SECONDS]")
    shop_server(Book(Path(book)), seconds).run()


if __name__ == "__main__":
    main()
