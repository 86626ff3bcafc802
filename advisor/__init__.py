"""Cluster Advisor: a rule-based expert on slow multi-node GPU training networks."""

__version__ = "0.1.0"
