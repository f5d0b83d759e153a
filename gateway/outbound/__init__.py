"""Second floor, beside the runtime: whom we go to. Each room is an adapter of one port."""
