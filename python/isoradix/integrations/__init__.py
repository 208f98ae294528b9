"""isoradix inside other systems. Each of them is imported only where it runs."""
