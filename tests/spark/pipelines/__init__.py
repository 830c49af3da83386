"""Tests of pipelines: archive, replay, rollup and windows."""
