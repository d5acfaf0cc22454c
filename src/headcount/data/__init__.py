"""A user's own samples and the two public data sets: files and arrays in, checked data sets out."""
