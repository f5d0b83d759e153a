"""Telemetry by the standard environment variables. Without them nothing is imported and nothing is sent.

Spans and log records are encoded where they end, some 10 us each, and sent by threads of their own; a backend that is
dead or hangs costs a call nothing, and the end of the gateway at most `FLUSH_S`.
"""

from gateway.outbound.otel.running import FLUSH_S as FLUSH_S
from gateway.outbound.otel.running import Running as Running
from gateway.outbound.otel.running import start as start
from gateway.outbound.otel.switches import SIGNALS as SIGNALS
from gateway.outbound.otel.switches import exporters as exporters
