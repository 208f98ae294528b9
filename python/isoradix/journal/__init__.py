"""All that a rank was given and what it decided, in files; who parted from whom, and where."""
