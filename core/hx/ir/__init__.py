"""Plain data that the steps of an export pass on."""
