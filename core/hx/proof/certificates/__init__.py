"""Certificates: what a proof compared, as one file, to be compared again without the model.

`certify` makes one from a proof. The other modules read and check one, and never import torch.
"""
