"""What exporters log: once for all batches that fail alike, and without the credentials of their backend."""

import logging
import re
import time

QUIET_S = 600.0
"""What an exporter has said is not said again for so long, however often it happens."""

_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.sdk.metrics._internal.export",
)
"""A logger's filter is asked for its own records alone, not for those of loggers below it."""

_HEADERS = "opentelemetry.util.re"
_USER = re.compile(r"(?<=//)[^/@\s]+@|(?<![\w/])[^/@\s:]+:[^/@\s]+@")
_QUERY = re.compile(r"(?<=[?&])([^=&\s]+)=[^&\s]+")


class _Once(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it was not said a while ago; what is said has no credentials."""
        now, what = time.monotonic(), f"{record.name}:{record.msg}"
        if now - self._said.get(what, -QUIET_S) < QUIET_S:
            return False
        self._said[what] = now
        record.msg, record.args = _QUERY.sub(r"\1=…", _USER.sub("…@", record.getMessage())), ()
        return True


class _Unquoted(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """The parser of headers quotes what it cannot read, which is most often a key."""
        record.msg, record.args = "a header of OTEL_EXPORTER_OTLP_HEADERS cannot be read, and is not sent", ()
        return True


_hushed: list[logging.Filter] = []


def hush() -> None:
    """From now on, in this process."""
    if not _hushed:
        _hushed.extend((_Once(), _Unquoted()))
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_hushed[0])
        logging.getLogger(_HEADERS).addFilter(_hushed[1])
