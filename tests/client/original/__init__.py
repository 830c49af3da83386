"""Tests that code for the original clients works, without their defects."""
