"""MS MARCO passage ranking from the files it is distributed in: lists of candidates to rank."""
