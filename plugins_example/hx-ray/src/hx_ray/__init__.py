"""Runs hx export --batch on a Ray cluster."""
