"""What is to be trained: trials, grids of them, packs, and the row that each becomes."""
