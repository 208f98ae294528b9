"""What moves KV between the tiers."""
