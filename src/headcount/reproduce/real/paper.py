"""The accuracies that the paper prints for MS MARCO and CIFAR-10, as shares that are wrong.

"The Effect of Attention Head Count on Transformer Approximation", arXiv 2510.06662. The text mentions
patches of 8 pixels; the lengths of the tables fit patches of 4.
"""

from collections.abc import Mapping

from headcount.reproduce.claims import Cells

MSMARCO_LENGTHS = (8, 16, 32, 64)
CIFAR10_LENGTHS = (65, 145, 257, 577, 1025)
DELTA = 0.25  # of the law that it fits to MS MARCO


def _wrong(lengths: tuple[int, ...], rows: Mapping[int, tuple[float, ...]], *, whole: float) -> Cells:
    return {
        (heads, T): (whole - right) / whole
        for heads, row in rows.items()
        for T, right in zip(lengths, row, strict=True)
    }


MSMARCO_TRAIN = _wrong(
    MSMARCO_LENGTHS,
    {
        1: (0.597, 0.450, 0.303, 0.154),
        2: (0.771, 0.647, 0.486, 0.286),
        4: (0.956, 0.900, 0.793, 0.580),
        6: (0.992, 0.977, 0.937, 0.814),
        8: (0.998, 0.995, 0.983, 0.932),
        12: (1.000, 0.999, 0.998, 0.991),
        16: (1.000, 1.000, 0.999, 0.996),
    },
    whole=1,
)
MSMARCO_VALIDATION = _wrong(
    MSMARCO_LENGTHS,
    {
        1: (0.511, 0.392, 0.254, 0.126),
        2: (0.522, 0.421, 0.271, 0.137),
        4: (0.508, 0.405, 0.255, 0.114),
        6: (0.515, 0.387, 0.240, 0.102),
        8: (0.506, 0.380, 0.231, 0.098),
        12: (0.518, 0.372, 0.222, 0.090),
        16: (0.502, 0.282, 0.217, 0.088),
    },
    whole=1,
)
CIFAR10_TRAIN = _wrong(
    CIFAR10_LENGTHS,
    {
        1: (47.8, 43.7, 42.0, 40.8, 40.0),
        2: (59.7, 55.2, 53.4, 51.5, 50.8),
        4: (75.5, 70.3, 68.5, 66.2, 65.8),
        8: (95.1, 92.6, 91.4, 90.7, 90.2),
        10: (98.1, 97.3, 96.7, 96.5, 96.7),
        11: (98.8, 98.3, 98.1, 97.7, 97.9),
        12: (99.2, 98.9, 98.6, 98.6, 98.6),
        13: (99.4, 99.3, 99.1, 99.0, 99.1),
        14: (99.6, 99.4, 99.3, 99.3, 99.3),
        16: (99.7, 99.6, 99.5, 99.6, 99.6),
        20: (99.8, 99.7, 99.7, 99.8, 99.9),
        24: (99.9, 99.8, 99.8, 99.9, 99.9),
    },
    whole=100,
)
CIFAR10_VALIDATION = _wrong(
    CIFAR10_LENGTHS,
    {
        1: (50.5, 45.9, 43.5, 41.4, 40.0),
        2: (60.0, 55.0, 53.1, 50.0, 48.5),
        4: (68.0, 63.5, 61.4, 57.2, 55.3),
        8: (69.7, 66.1, 62.4, 57.6, 56.2),
        10: (69.7, 65.6, 62.5, 57.2, 54.4),
        12: (69.7, 65.8, 62.6, 56.6, 53.2),
        16: (69.7, 64.2, 59.3, 49.7, 48.5),
        24: (65.1, 56.8, 52.1, 48.7, 48.4),
    },
    whole=100,
)
