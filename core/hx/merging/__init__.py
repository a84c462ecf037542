"""Merges: several traces become one, with `If`, `Loop` or formulas."""
