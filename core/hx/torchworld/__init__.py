"""Hooks that are placed during a recording, and their removal."""
