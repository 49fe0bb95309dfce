"""The process that lets waiters in: one cycle, the slower sweep, the loop around them, and how it starts."""
