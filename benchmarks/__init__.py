"""Timings: never pass or fail, always beside a floor measured in the same run."""
