"""Standard converters, one module for each subject. They are a pack like any other."""
