"""The device that packs are planned for, and what it can hold."""

from dataclasses import dataclass
from typing import Literal

DeviceKind = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class Machine:
    """Where packs run. A GPU takes a pack as one vmapped program; a CPU runs a member on each core.

    - `lanes`: cores, with a member on each; or GPUs, with a share of the pack on each.
    - `memory`: bytes that members may fill.
    - `pack_seconds`: about how long a pack may take here; None where nobody waits for a pack as a whole.
    """

    kind: DeviceKind
    name: str
    lanes: int
    memory: int
    pack_seconds: float | None = None

    @property
    def memory_for_one(self) -> int:
        """Bytes that one member may fill: it lies on one GPU, however many there are."""
        return self.memory // self.lanes if self.kind == "gpu" else self.memory

    def holding(self, needed: int) -> int:
        """How many members that need so many bytes it holds."""
        if self.kind == "gpu":
            return self.lanes * (self.memory_for_one // needed)
        return self.memory // needed
