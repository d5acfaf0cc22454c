"""How many heads a trained PyTorch model needs, and a smaller model."""
