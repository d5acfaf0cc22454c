"""How measured numbers are written, in sentences, tables and on the axes of charts alike."""

import math

MAX_FOLD = 1_000_000  # beyond, the smaller of the two is next to nothing and the ratio says no more


def scientific(value: float) -> str:
    """Two digits and a short exponent.

    >>> scientific(0.00031), scientific(1), scientific(0), scientific(float("nan"))
    ('3.1e-4', '1.0e+0', '0', '–')
    """
    if math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent):+d}"


def short(value: float, digits: int = 2) -> str:
    """So many significant digits, with an exponent only where it saves some.

    >>> short(-0.4898), short(27e-9), short(190.0), short(1.0)
    ('-0.49', '2.7e-8', '1.9e+2', '1')
    """
    mantissa, e, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent):+d}" if e else mantissa


def fold(before: float, after: float) -> str:
    """How many times the one is the other, to two digits: a ratio of errors is not known better.

    >>> fold(0.03, 0.012), fold(1553, 1), fold(0.3, 0)
    ('2.5-fold', '1,600-fold', 'more than a million-fold')
    """
    if before > MAX_FOLD * after:
        return "more than a million-fold"
    ratio = float(f"{before / after:.1e}") if after else 1.0
    return f"{ratio:.1f}-fold" if ratio < 10 else f"{ratio:,.0f}-fold"


def quantity(value: str | float) -> str:
    """Three digits, with M and G for millions and thousands of millions; texts stay as they are.

    >>> quantity(22_713_216), quantity("2,750,000,000"), quantity(12.34567), quantity("no gain")
    ('22.7M', '2.75G', '12.3', 'no gain')
    """
    if isinstance(value, str):
        digits = value.replace(",", "")
        if not (digits.isascii() and digits.isdecimal()):
            return value
        value = int(digits)
    for power, letter in ((9, "G"), (6, "M")):
        if abs(value) >= 10**power:
            return f"{float(f'{value:.2e}') / 10**power:,g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
