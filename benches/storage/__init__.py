"""What external storage costs and saves: see `__main__`."""
