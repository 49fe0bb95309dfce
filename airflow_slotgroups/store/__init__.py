"""All SQL of ours: reads a snapshot, applies a decision."""
