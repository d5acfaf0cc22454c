"""CIFAR-10 from the files it is distributed in, and images in larger frames."""
