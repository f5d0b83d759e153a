"""The door for agents: both eras of MCP, over streamable HTTP and stdio.

`http_app` and `serve_stdio` are all that the composition root needs, with a relay to serve.
"""

from gateway.inbound.mcp.door import HEAD_KEY as HEAD_KEY
from gateway.inbound.mcp.door import Guard as Guard
from gateway.inbound.mcp.doorkeeper import is_here as is_here
from gateway.inbound.mcp.faults import Fault as Fault
from gateway.inbound.mcp.framing import server_config as server_config
from gateway.inbound.mcp.identity import RUN_HEADER as RUN_HEADER
from gateway.inbound.mcp.identity import local_user as local_user
from gateway.inbound.mcp.keeping import doorkeeper_of as doorkeeper_of
from gateway.inbound.mcp.keeping import introduction as introduction
from gateway.inbound.mcp.mount import HttpApp as HttpApp
from gateway.inbound.mcp.mount import http_app as http_app
from gateway.inbound.mcp.observing import Observe as Observe
from gateway.inbound.mcp.observing import RequestInfo as RequestInfo
from gateway.inbound.mcp.observing import Tell as Tell
from gateway.inbound.mcp.observing import unobserved as unobserved
from gateway.inbound.mcp.own_tools import OWN_TOOLS as OWN_TOOLS
from gateway.inbound.mcp.ports import Gate as Gate
from gateway.inbound.mcp.ports import Offers as Offers
from gateway.inbound.mcp.relay import Relay as Relay
from gateway.inbound.mcp.relay import relay_of as relay_of
from gateway.inbound.mcp.sessions import IDLE_S as IDLE_S
from gateway.inbound.mcp.stdio import serve_stdio as serve_stdio
from gateway.inbound.mcp.tokens import BadToken as BadToken
from gateway.inbound.mcp.tokens import RunToken as RunToken
from gateway.inbound.mcp.tokens import mint as mint
from gateway.inbound.mcp.tokens import verify as verify
