"""Moves score parameters from where they are to a target while a model is fine-tuned."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from transformers import TrainerCallback

from ..operator import find_score
from ..score_parameters import effective_values, lower_bound, raw_weight
from ..softmax_limits import softmax_limit
from .parameters import score_modules


class Landing:
    """A schedule from a matched model to a target: at step t of `steps`, the coordinate x of
    `ssa_attention.softmax_limits` (SSA: 1/n, with b = slope/n) has gone t/steps of the way, so that the distance from
    softmax grows evenly. Steps of a logarithm would spend most of them where nothing happens.

        landing = Landing(model, {"n": 4.0}, steps=300)
        for step in range(500):
            landing.step(step)  # before the forward pass
            ...

    Args:
        model: with a score that contains softmax (`softmax_limits`), also within a wrapper.
        target: effective values by name, numbers for all heads. SSA: n, and b where n·b is not to stay what it is.
        steps: when the target is reached, at least 1; step 0 leaves the model as it is.
        train: whether the parameters train once they have landed; until then the schedule owns them, and no optimizer
            moves them.
        done: at which step the model stands already (a resumed run).

    Raises:
        ValueError: for a target without the score's main parameter, with unknown names or out of range.
    """

    def __init__(
        self, model: nn.Module, target: Mapping[str, float], steps: int, *, train: bool = True, done: int = 0
    ) -> None:
        self._modules = score_modules(model)
        names = {info.name for _, _, info in self._modules}
        if len(names) != 1:
            raise ValueError(f"the model must have one score with parameters, it has {sorted(names) or 'none'}")
        self._info = find_score(names.pop())
        self._limit = softmax_limit(self._info.name)
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}")
        self.steps = steps
        self._target = self._checked(target)
        self._trained = {
            param.name: [
                train and getattr(module, f"score_{param.name}").requires_grad for _, module, _ in self._modules
            ]
            for param in self._info.params
        }
        self._starts = [self._coordinates(module) for _, module, _ in self._modules]
        if 0 < done < steps:  # where the path began, from where it has come to
            self._starts = [[self._begun(*at, done / steps) for at in starts] for starts in self._starts]
        self._landed = done >= steps  # a run that has landed has trained them since
        if not self._landed:
            self.step(done)

    def _checked(self, target: Mapping[str, float]) -> dict[str, float]:
        names = [param.name for param in self._info.params]
        if unknown := [name for name in target if name not in names]:
            raise ValueError(f"target: score {self._info.name!r} has the parameters {names}, not {unknown}")
        if names[0] not in target:
            raise ValueError(f"target must have {names[0]}, got {list(target)}")
        for _, module, _ in self._modules:
            for param in self._info.params:
                if param.name in target:
                    try:
                        raw_weight(float(target[param.name]), module.score_parametrisation, param)
                    except ValueError:
                        lower = lower_bound(param, module.score_parametrisation)
                        raise ValueError(
                            f"target {param.name} must be > {lower:g} ({module.score_parametrisation}), got "
                            f"{target[param.name]:g}"
                        ) from None
        return {name: float(value) for name, value in target.items()}

    @torch.no_grad()
    def _coordinates(self, module: nn.Module) -> list[tuple[float, float]]:
        """(x, slope) of each head."""
        found = effective_values(module, self._info, module.score_parametrisation, torch.float64)
        columns = [value.tolist() for value in found]
        heads = [
            dict(zip((param.name for param in self._info.params), row, strict=True))
            for row in zip(*columns, strict=True)
        ]
        return [(self._limit.coordinate(values), self._limit.slope(values)) for values in heads]

    def _end(self, slope: float) -> tuple[float, float]:
        """(x, slope) of the target, for a head that begins with this slope."""
        values = dict(self._target)
        for param in self._info.params:
            values.setdefault(param.name, 1.0)
        whole = len(self._target) == len(self._info.params)
        return self._limit.coordinate(values), self._limit.slope(values) if whole else slope

    def _begun(self, x: float, slope: float, part: float) -> tuple[float, float]:
        end = self._end(slope)
        first = (x - part * end[0]) / (1 - part), (slope - part * end[1]) / (1 - part)
        return max(first[0], 1e-9 * end[0]), max(first[1], 1e-9 * end[1])

    def values(self, step: int) -> list[list[dict[str, float]]]:
        """The values at a step, by module and head."""
        part = min(max(step / self.steps, 0.0), 1.0)
        found = []
        for starts in self._starts:
            row = []
            for x, slope in starts:
                end = self._end(slope)
                at = x + part * (end[0] - x), slope + part * (end[1] - slope)
                row.append(self._limit.values(*at) if part < 1 else self._limit.values(*end))
            found.append(row)
        return found

    @property
    def landed(self) -> bool:
        """Whether the target has been reached; from then on `step` changes nothing."""
        return self._landed

    @torch.no_grad()
    def step(self, step: int) -> None:
        """Sets the values of step `step`, counted from 0: call it before the forward pass."""
        if self._landed:
            return
        for (_, module, _), row in zip(self._modules, self.values(step), strict=True):
            for param in self._info.params:
                raw = getattr(module, f"score_{param.name}")
                raw.requires_grad_(False)
                if step > 0:
                    how = module.score_parametrisation
                    each = [raw_weight(values[param.name], how, param) for values in row]
                    raw.copy_(torch.tensor(each, dtype=raw.dtype))
                raw.grad = None
        if step >= self.steps:
            self._landed = True
            for name, trained in self._trained.items():
                for (_, module, _), train in zip(self._modules, trained, strict=True):
                    getattr(module, f"score_{name}").requires_grad_(train)


class LandingCallback(TrainerCallback):
    """`Landing` for transformers' Trainer.

        Trainer(…, callbacks=[LandingCallback({"n": 4.0}, until=0.6)])

    Args:
        target: as in `Landing`.
        until: the part of all steps after which the target is reached, in (0, 1].
        train: whether the parameters train from then on.

    A run that resumes from a checkpoint goes on where it was: the values are in the checkpoint, the step in the
    trainer's state. The optimizer must know the parameters from the start, so it is made before they are frozen: the
    Trainer does so by itself.
    """

    def __init__(self, target: Mapping[str, float], *, until: float = 0.6, train: bool = True) -> None:
        if not 0 < until <= 1:
            raise ValueError(f"until must be in (0, 1], got {until}")
        self._target, self._until, self._train = dict(target), until, train
        self.landing: Landing | None = None

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        steps = max(1, round(self._until * state.max_steps))
        self.landing = Landing(model, self._target, steps, train=self._train, done=state.global_step)

    def on_step_begin(self, args, state, control, **kwargs):
        self.landing.step(state.global_step)
