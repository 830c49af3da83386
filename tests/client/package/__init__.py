"""Tests of the installed package: imports, types, reprs and the end of a process."""
