"""The way of a call: from its arguments to the nodes that its converter writes, or to a constant."""
