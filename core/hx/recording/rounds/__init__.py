"""Rounds of plain loops: where they begin, and how many there are."""
