"""Programs that write files of this repository: the schema, type stubs and reference pages."""
