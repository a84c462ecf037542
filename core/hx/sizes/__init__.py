"""Sizes that may change: what they follow from, what was asked of them, what operators make of them."""
