"""Bytes to structs and back: protocol, routing, request bodies, responses and problems."""
