"""Tests of the parts that all pages share: navigation, palette, lists, appearance."""
