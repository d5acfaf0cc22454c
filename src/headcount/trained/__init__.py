"""Trained PyTorch models: how many heads they need, which, and a smaller model."""
