"""Handwritten digits, as a file for `headcount estimate`: the patches of an image are its tokens.

    pip install scikit-learn
    python examples/digits.py
    headcount estimate digits.npz --out digits

The 1,797 images of 8 by 8 pixels come with scikit-learn. Each is cut into 16 patches of 2 by 2, in reading
order; the label is the digit.
"""

import numpy as np
from sklearn.datasets import load_digits

SIDE, PATCH = 8, 2


def main() -> None:
    """Write digits.npz."""
    images, labels = load_digits(return_X_y=True)
    per_side = SIDE // PATCH
    cut = images.reshape(-1, per_side, PATCH, per_side, PATCH).transpose(0, 1, 3, 2, 4)
    np.savez("digits.npz", x=cut.reshape(len(cut), per_side**2, PATCH**2), y=labels)
    print("Wrote digits.npz. Next: headcount estimate digits.npz --out digits")


if __name__ == "__main__":
    main()
