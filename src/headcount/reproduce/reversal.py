"""The paper's reversal score: does a longer sequence ever have the smaller error?"""

import numpy as np
from jaxtyping import Float


def reversal_score(errors: Float[np.ndarray, " lengths"]) -> float:
    """R = Σ_{T1 < T2} max(err(T1) − err(T2), 0) / (max_T err − min_T err): 0 where errors only grow.

    The paper takes the first h with R > 0 for the transition. On its own Table 4 that is h = 2, with D = 3:
    the score sees an order, not a size.

    >>> reversal_score(np.array([1.0, 2.0, 3.0])), reversal_score(np.array([3.0, 2.0]))
    (0.0, 1.0)
    """
    spread = float(np.max(errors) - np.min(errors))
    if spread == 0:
        return 0.0
    earlier, later = np.triu_indices(len(errors), k=1)
    return float(np.maximum(errors[earlier] - errors[later], 0).sum() / spread)
