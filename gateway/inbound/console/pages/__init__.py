"""The console's pages: made on the server, and usable without a script. Behind the door, which says who asks."""

from gateway.inbound.console.pages.live import Live as Live
from gateway.inbound.console.pages.routes import pages as pages
