"""Tests in which PostgreSQL, its connections or servers fail under load."""
