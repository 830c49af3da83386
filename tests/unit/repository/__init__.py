"""Rules for the files of this repository."""
