"""Proof that a file computes what the model computes, within a tolerance, on many inputs."""
