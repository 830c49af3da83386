"""The messaging routes: decode the request, call the engine once, respond."""
