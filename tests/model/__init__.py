"""A naive model of the prefix cache, to hold the real one against."""
