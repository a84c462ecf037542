"""The recording of one run: each call, from the door where it arrives to the nodes it writes."""
