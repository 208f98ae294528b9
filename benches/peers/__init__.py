"""isoradix beside SGLang's prefix caches: one interface, one run, the same work."""
