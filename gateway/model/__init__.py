"""The ground floor: frozen types that every floor may name. No behaviour beyond a parse and a digest."""
