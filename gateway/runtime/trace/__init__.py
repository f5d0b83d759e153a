"""Spans, figures and log events by the MCP and GenAI conventions, all of them from what is recorded.

`registry.yaml` of `gateway/model/telemetry` has every name. Without an SDK everything here is a no-op. Spans are lossy;
the ledger is the record, and they carry its ids.
"""

from gateway.runtime.trace.doubts import Doubts as Doubts
from gateway.runtime.trace.doubts import is_stored as is_stored
from gateway.runtime.trace.inner import context as context
from gateway.runtime.trace.inner import settling as settling
from gateway.runtime.trace.inner import verifying as verifying
from gateway.runtime.trace.inner import waiting as waiting
from gateway.runtime.trace.options import Options as Options
from gateway.runtime.trace.options import nothing as nothing
from gateway.runtime.trace.options import status_codes as status_codes
from gateway.runtime.trace.recording import Telemetry as Telemetry
from gateway.runtime.trace.recording import proposed as proposed
from gateway.runtime.trace.requests import Inbound as Inbound
from gateway.runtime.trace.requests import Request as Request
from gateway.runtime.trace.requests import again as again
from gateway.runtime.trace.requests import told as told
from gateway.runtime.trace.sendings import attempting as attempting
