"""Apprise against real receivers: JSON over HTTP, and a mail server."""

import asyncio
import email
import email.policy
import logging
import logging.handlers
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP

from gateway.model.notice import Notice
from gateway.outbound.notices.services import Service
from gateway.ports import NotTaken
from tests.notices.receiver import hangs, receiving, says

pytestmark = pytest.mark.anyio

TOLD = Notice("run_1#4:ops", "approval.asked", "Approval wanted: pay", "Tool: pay\nWhy: <b>money</b> & more")
HIDDEN = "s3cr3t-t0ken"


async def test_a_message_reaches_a_service_as_plain_text() -> None:
    async with receiving(secret=None) as it:
        service = Service(f"json://127.0.0.1:{it.port}/{HIDDEN}")
        assert service.trouble is None
        assert await service.send(TOLD) is None
    (got,) = it.got
    assert got.path == f"POST /{HIDDEN} HTTP/1.1"
    assert (got.said["title"], got.said["message"]) == (TOLD.title, TOLD.body)


async def test_what_went_wrong_is_told_without_any_part_of_the_address() -> None:
    heard = logging.handlers.MemoryHandler(1_000)
    logging.getLogger().addHandler(heard)
    async with receiving(says("500 Internal Server Error"), secret=None) as it:
        said = await Service(f"json://{HIDDEN}:{HIDDEN}@127.0.0.1:{it.port}/{HIDDEN}").send(TOLD)
    assert said is not None
    assert "500" in said.reason
    gone = await Service(f"json://127.0.0.1:{it.port}/{HIDDEN}").send(TOLD)
    assert gone == NotTaken("A Connection error occurred sending JSON notification to [hidden]")
    assert HIDDEN not in f"{said}{gone}"
    logging.getLogger().removeHandler(heard)
    assert [one.getMessage() for one in heard.buffer if one.name == "apprise"] == []


async def test_an_address_that_apprise_does_not_understand_sends_nothing() -> None:
    service = Service("nowhere://x")
    assert service.trouble == "Apprise does not understand its address"
    assert await service.send(TOLD) == NotTaken("Apprise does not understand its address")


async def test_a_service_that_hangs_is_not_waited_for_and_not_sent_a_second_message_meanwhile() -> None:
    async with receiving(hangs, secret=None) as it:
        service = Service(f"json://127.0.0.1:{it.port}/?rto=1", timeout_s=0.2)
        assert await service.send(TOLD) == NotTaken("it was not done within 0.2 s")
        assert await service.send(TOLD) == NotTaken("it is still busy with an earlier message")
        for _ in range(500):
            if service._busy is not None and not service._busy.is_alive():
                break
            await asyncio.sleep(0.01)
        assert await service.send(TOLD) == NotTaken("it was not done within 0.2 s")
        assert len(it.got) == 2


async def test_what_was_sent_after_all_is_not_sent_again() -> None:
    async def slow(out: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.4)
        out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with receiving(slow, secret=None) as it:
        service = Service(f"json://127.0.0.1:{it.port}/", timeout_s=0.1)
        assert await service.send(TOLD) == NotTaken("it was not done within 0.1 s")
        for _ in range(500):
            if service._late:
                break
            await asyncio.sleep(0.01)
        assert await service.send(TOLD) is None
        assert len(it.got) == 1


@dataclass
class Box:
    """A mail box."""

    mails: list[email.message.EmailMessage] = field(default_factory=list)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 OK"


async def test_a_mail_is_no_markup_whatever_a_server_calls_its_tools() -> None:
    box = Box()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: SMTP(box), "127.0.0.1", 0)
    try:
        port = listening.sockets[0].getsockname()[1]
        to = f"mailto://127.0.0.1:{port}/?from=gate@example.org&to=ann@example.org&mode=insecure"
        assert await Service(to).send(TOLD) is None
    finally:
        listening.close()
    (mail,) = box.mails
    assert str(mail["subject"]) == TOLD.title
    parts = {part.get_content_type(): part.get_content() for part in mail.walk() if not part.is_multipart()}
    assert "<b>" not in parts.get("text/html", "")
    assert "money" in "".join(parts.values())
