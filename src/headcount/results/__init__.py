"""The results frame: Parquet shards in a folder, one row per trial, and what they add up to."""
