"""Channels to people: Apprise, which knows chats and mail, and signed webhooks. The house names them by `Notifier`."""

from gateway.outbound.notices.entries import Channel as Channel
from gateway.outbound.notices.entries import NotInstalled as NotInstalled
from gateway.outbound.notices.entries import installed as installed
from gateway.outbound.notices.entries import notifier_of as notifier_of
