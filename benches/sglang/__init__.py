"""The cache of a real SGLang server, ours beside its own."""
