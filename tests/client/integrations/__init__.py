"""Tests with other tools: web frameworks, CloudEvents, OpenTelemetry, pytest."""
