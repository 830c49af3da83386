"""Shared by commands: the client, output formats, exit codes and redaction."""
