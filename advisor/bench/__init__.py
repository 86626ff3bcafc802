"""Benchmarks that the advisor brings along: scripts that stand alone and need nothing of this package."""
