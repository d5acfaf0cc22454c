"""All batches through a model together, layer by layer, whatever the model is made of.

To fit a layer anew takes its inputs on all samples, and the next layer's inputs come through the new layer.
Batches therefore wait for each other: each runs in a thread of its own, one at a time, up to the next layer
that is stopped at; when all are there, that layer is changed, and all go on. That takes one pass in place of
one for every layer, and holds no more of a waiting batch than what the layers above read.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.batches import Batch, called
from headcount.trained.residual import first_tensor

Beside = list[Tensor | None]
At = Callable[[int, list[Tensor], Beside], list[Tensor] | None]


class _Stopped(BaseException):
    """Another batch failed."""


class _Batch(threading.Thread):
    """One batch on its way; it runs only between `resume` and its next stop."""

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        super().__init__(daemon=True)
        self.model, self.batch = model, batch
        self.go, self.paused = threading.Semaphore(0), threading.Semaphore(0)
        self.place: int | None = None
        self.inputs: Tensor | None = None
        self.beside: dict[int, Tensor] = {}
        self.failed: BaseException | None = None
        self.cancelled = False

    def run(self) -> None:
        self.go.acquire()
        try:
            if not self.cancelled:
                with torch.no_grad():  # a setting of each thread
                    called(self.model, self.batch)
        except _Stopped:
            pass
        except BaseException as problem:
            self.failed = problem
        self.place = None
        self.paused.release()

    def resume(self) -> None:
        """Run to the next stop, or to the end."""
        self.go.release()
        self.paused.acquire()

    def stop(self, place: int, inputs: Tensor) -> Tensor:
        """Called in the thread: wait at a layer, and go on with what its input has become."""
        self.place, self.inputs = place, inputs
        self.paused.release()
        self.go.acquire()
        if self.cancelled:
            raise _Stopped
        assert self.inputs is not None
        return self.inputs


def in_lockstep(
    model: nn.Module,
    batches: Sequence[Batch],
    stops: Sequence[nn.Module],
    at: At,
    *,
    names: Sequence[str],
    beside: Sequence[nn.Module | None] | None = None,
    to_the_end: bool = True,
) -> None:
    """Run all batches, and call `at` with the place of a stop and all inputs before any goes through it.

    What `at` returns, if anything, goes on in place of these inputs; it may change the module. `beside`: a
    module for each stop, called before it, whose inputs `at` is given too. `to_the_end`: go on behind the
    last stop, and refuse a model that comes to one again.
    """
    runs = [_Batch(model, batch) for batch in batches]
    current: list[_Batch] = []

    def hook_of(place: int) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
        def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return (current[0].stop(place, inputs[0]), *inputs[1:])

        return hook

    def note_of(place: int) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        def note(_: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            tensor = first_tensor(inputs, named)
            if tensor is not None:
                current[0].beside[place] = tensor

        return note

    hooks = [stop.register_forward_pre_hook(hook_of(place)) for place, stop in enumerate(stops)]
    hooks += [
        module.register_forward_pre_hook(note_of(place), with_kwargs=True)
        for place, module in enumerate(beside or ())
        if module is not None
    ]
    for run in runs:
        run.start()
    seen: set[int] = set()
    try:
        while True:
            for run in runs:
                current[:] = [run]
                run.resume()
                if run.failed is not None:
                    raise run.failed
            place = _common_place(runs, names)
            if place is None:
                break
            if place in seen:
                raise InvalidInput(
                    f"{names[place]}: expected to be called once, was called again: attention that several "
                    "layers share cannot be changed for one of them"
                )
            seen.add(place)
            inputs = [run.inputs for run in runs if run.inputs is not None]
            changed = at(place, inputs, [run.beside.pop(place, None) for run in runs])
            if len(seen) == len(stops) and not to_the_end:
                break
            for run, replaced in zip(runs, changed or (), strict=False):
                run.inputs = replaced
    finally:
        for hook in hooks:
            hook.remove()
        for run in runs:
            if run.is_alive():
                run.cancelled = True
                run.go.release()
                run.join()
    missed = sorted(set(range(len(stops))) - seen)
    if missed:
        raise InvalidInput(f"{names[missed[0]]}: expected to be called for every batch, was not")


def _common_place(runs: Sequence[_Batch], names: Sequence[str]) -> int | None:
    places = {run.place for run in runs}
    if len(places) > 1:
        where = sorted("the end" if place is None else names[place] for place in places)
        raise InvalidInput(f"expected the same layers for every batch, got {where[0]} and {where[1]}")
    return places.pop()
