"""Installed packs and what they bring: found, checked, listed, and asked who converts a target."""
