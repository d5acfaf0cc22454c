"""Any continuous target as a retrieval target."""
