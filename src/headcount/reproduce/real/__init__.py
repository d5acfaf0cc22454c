"""The two real-data experiments: images in a frame, and passages to be ranked."""
