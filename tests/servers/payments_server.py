"""An MCP server with the names and arguments of Stripe's tools, and the two reads that `policies/payments.yaml` needs.

    python tests/servers/payments_server.py LOG

It moves no money: each effect is one JSON line in LOG, on disk before the answer goes out, and refunds are read back
from there. Every payment whose id begins with `pi_` is one of 100.00 EUR; those that begin with `pi_lies` answer that
they were refunded and are not, and one that begins with `pi_open` was not paid.
"""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

from tests.servers.log import Log

PAID = 10_000


class Refund(BaseModel):
    """As Stripe tells it, as far as the policy looks."""

    id: str
    payment_intent: str
    amount: int
    status: str


class Refunds(BaseModel):
    """Of one payment."""

    refunds: list[Refund]
    has_more: bool


class Payment(BaseModel):
    """One payment."""

    id: str
    status: str
    currency: str
    amount_received: int
    amount_refunded: int


class Made(BaseModel):
    """What was made."""

    id: str
    status: str


def payments_server(log: Log) -> MCPServer[None]:
    """The server over this log."""
    server = MCPServer[None]("payments")

    def refunds_of(payment_intent: str) -> list[Refund]:
        return [
            Refund(id=f"re_{place}", payment_intent=payment_intent, amount=line["amount"], status="succeeded")
            for place, line in enumerate(log.lines())
            if line["effect"] == "refund" and line["payment_intent"] == payment_intent
        ]

    @server.tool()
    def create_refund(payment_intent: str, amount: int | None = None, reason: str = "") -> Refund:
        """Refund a payment."""
        left = PAID - sum(one.amount for one in refunds_of(payment_intent))
        given = left if amount is None else amount
        if not payment_intent.startswith("pi_lies"):
            log.append("refund", payment_intent=payment_intent, amount=given, reason=reason)
        return Refund(id="re_new", payment_intent=payment_intent, amount=given, status="succeeded")

    @server.tool()
    def retrieve_payment_intent(payment_intent: str) -> Payment:
        """Read one payment."""
        refunded = sum(one.amount for one in refunds_of(payment_intent))
        status = "requires_payment_method" if payment_intent.startswith("pi_open") else "succeeded"
        return Payment(id=payment_intent, status=status, currency="eur", amount_received=PAID, amount_refunded=refunded)

    @server.tool()
    def list_refunds(payment_intent: str) -> Refunds:
        """Read the refunds of one payment."""
        return Refunds(refunds=refunds_of(payment_intent), has_more=False)

    @server.tool()
    def create_invoice(customer: str, days_until_due: int = 30) -> Made:
        """Draft an invoice."""
        log.append("invoice", customer=customer, days_until_due=days_until_due)
        return Made(id="in_1", status="draft")

    @server.tool()
    def finalize_invoice(invoice: str) -> Made:
        """Bill the customer."""
        log.append("bill", invoice=invoice)
        return Made(id=invoice, status="open")

    @server.tool()
    def create_payout(amount: int) -> Made:
        """Pay out."""
        log.append("payout", amount=amount)
        return Made(id="po_1", status="paid")

    return server


if __name__ == "__main__":
    payments_server(Log(Path(sys.argv[1]))).run("stdio")
