"""Arguments of the tools that the packs are written for, as those servers declare them.

From `tools/list` of mcp-server-sqlite 2025.4.25 and mcp-server-fetch 2026.10.24, and from the sources or pages of
GongRzhe/Gmail-MCP-Server, modelcontextprotocol/servers (slack), korotovsky/slack-mcp-server, stripe/agent-toolkit,
paypal/agent-toolkit, crystaldba/postgres-mcp and microsoft/playwright-mcp. Nothing beside them is taken.
"""

from collections.abc import Mapping
from typing import Any

from gateway.model.tool import Tool

_TEXT, _WHOLE, _TRUTH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_AMOUNT = {"type": "object", "properties": {"currency_code": _TEXT, "value": _TEXT}, "additionalProperties": False}
_MAIL = {
    "to": _TEXTS,
    "subject": _TEXT,
    "body": _TEXT,
    "htmlBody": _TEXT,
    "mimeType": _TEXT,
    "cc": _TEXTS,
    "bcc": _TEXTS,
    "threadId": _TEXT,
    "inReplyTo": _TEXT,
    "attachments": _TEXTS,
}

ARGUMENTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "sql-read-mostly": {
        "read_query": {"query": _TEXT},
        "write_query": {"query": _TEXT},
        "create_table": {"query": _TEXT},
        "list_tables": {},
        "describe_table": {"table_name": _TEXT},
        "query": {"sql": _TEXT},
        "execute_sql": {"sql": _TEXT},
        "explain_query": {"sql": _TEXT, "analyze": _TRUTH, "hypothetical_indexes": {"type": "array"}},
        "get_object_details": {"schema_name": _TEXT, "object_name": _TEXT, "object_type": _TEXT},
    },
    "web-fetch": {
        "fetch": {"url": _TEXT, "max_length": _WHOLE, "start_index": _WHOLE, "raw": _TRUTH},
        "browser_navigate": {"url": _TEXT},
        "browser_click": {"element": _TEXT, "ref": _TEXT},
        "puppeteer_navigate": {"url": _TEXT, "launchOptions": {"type": "object"}, "allowDangerous": _TRUTH},
    },
    "mail-and-chat": {
        "send_email": _MAIL,
        "draft_email": _MAIL,
        "read_email": {"messageId": _TEXT},
        "modify_email": {"messageId": _TEXT, "addLabelIds": _TEXTS, "removeLabelIds": _TEXTS},
        "download_attachment": {"messageId": _TEXT, "attachmentId": _TEXT, "filename": _TEXT, "savePath": _TEXT},
        "slack_post_message": {"channel_id": _TEXT, "text": _TEXT},
        "slack_reply_to_thread": {"channel_id": _TEXT, "thread_ts": _TEXT, "text": _TEXT},
        "conversations_add_message": {
            "channel_id": _TEXT,
            "thread_ts": _TEXT,
            "text": _TEXT,
            "content_type": _TEXT,
        },
    },
    "payments": {
        "stripe__create_refund": {"payment_intent": _TEXT, "amount": _WHOLE, "reason": _TEXT},
        "stripe__create_payment_link": {"price": _TEXT, "quantity": _WHOLE, "redirect_url": _TEXT},
        "stripe__create_invoice": {"customer": _TEXT, "days_until_due": _WHOLE},
        "stripe__create_invoice_item": {"customer": _TEXT, "price": _TEXT, "invoice": _TEXT},
        "stripe__finalize_invoice": {"invoice": _TEXT},
        "paypal__create_refund": {
            "capture_id": _TEXT,
            "amount": _AMOUNT,
            "invoice_id": _TEXT,
            "note_to_payer": _TEXT,
        },
        "paypal__send_invoice": {"invoice_id": _TEXT, "note": _TEXT, "send_to_recipient": _TRUTH},
    },
}
"""By pack and tool."""


def tools_of(pack: str) -> list[Tool]:
    """The tools, which take no other argument."""
    return [
        Tool(
            name,
            "real",
            name.rpartition("__")[2],
            {
                "name": name.rpartition("__")[2],
                "inputSchema": {"type": "object", "properties": dict(properties), "additionalProperties": False},
            },
        )
        for name, properties in ARGUMENTS[pack].items()
    ]
