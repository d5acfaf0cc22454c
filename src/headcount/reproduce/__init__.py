"""The paper's evidence, run again: one short file per table, figure or question."""
