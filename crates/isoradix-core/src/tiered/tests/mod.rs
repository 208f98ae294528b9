//! Tests of the tiered cache.
