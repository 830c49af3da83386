"""Tests of the installation and the upgrade of a release."""
