"""HTTP: protocol, routing, request bodies, responses and problem documents."""
