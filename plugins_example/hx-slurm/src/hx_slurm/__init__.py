"""Runs hx export --batch as jobs of Slurm, through submitit."""
