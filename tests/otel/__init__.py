"""How telemetry goes out: what is encoded, what waits, and what the environment asks for."""
