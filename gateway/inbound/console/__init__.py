"""The door for reviewers and operators, and what is behind it: pages, a JSON API."""

from gateway.inbound.console.access import LINK_S as LINK_S
from gateway.inbound.console.access import Access as Access
from gateway.inbound.console.access import Links as Links
from gateway.inbound.console.access import local_reviewer as local_reviewer
from gateway.inbound.console.credentials import mint as mint
from gateway.inbound.console.keys import Keys as Keys
from gateway.inbound.console.mount import console_app as console_app
from gateway.inbound.console.mount import is_console as is_console
from gateway.inbound.console.visitor import csrf_of as csrf_of
from gateway.inbound.console.visitor import desk_of as desk_of
from gateway.inbound.console.visitor import link_of as link_of
from gateway.inbound.console.visitor import reviewer_of as reviewer_of
