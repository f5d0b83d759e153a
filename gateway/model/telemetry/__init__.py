"""What telemetry is called. `registry.yaml` says every name; `names`, `metrics` and `log_events` are made from it.

Nothing here emits: the runtime does, and the front and the links.
"""
