"""Installed packs and their contributions: found, checked, listed, and asked for converters."""
