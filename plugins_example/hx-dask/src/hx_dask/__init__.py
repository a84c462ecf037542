"""Runs hx export --batch on a dask.distributed cluster."""
