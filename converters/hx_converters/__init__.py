"""The standard converters, a room for each subject. They are a pack like any other."""
