"""The optimizer of a NanoChat: Muon for the blocks' matrices, AdamW with rates of its own for everything else.

Groups, rates and betas are nanochat's. With `matrix: adamw` the blocks' matrices are moved by AdamW too, with `matrix_lr` and
nanoGPT's betas (0.9, 0.95) and ε 1e-8, and decay by the same schedule as under Muon; all other groups stay as they are.

State and updates are shared out over ranks (as in ZeRO, Rajbhandari et al., arXiv 1910.02054, stage 2): gradients are summed
to the rank that owns their slice, each rank moves its own slices, and all ranks get the result. One rank owns everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from xsa.model.nanochat import NanoChat
from xsa.optim.adamw import AdamW, AdamWRates
from xsa.optim.muon import Muon
from xsa.optim.sharding import Sharding
from xsa.study.stages import OptimStage

REFERENCE_WIDTH = 768  # the width at which the embedding and head rates are stated
SMEAR_LR = 0.2  # of the smear and backout parameters, whatever the other rates


class MuonAdamW:
    """Moves every parameter of the model, each in exactly one group.

    Before each step call `set` with the schedule's values; gradients are those in the parameters' `.grad`, added up over
    ranks. `adamw_groups` and `muon_groups` hold names, rates and this rank's state. Where there are several ranks, all call
    every method that reads gradients or state, in one order.
    """

    def __init__(self, model: NanoChat, settings: OptimStage, sharding: Sharding = Sharding()):  # noqa: B008 - immutable
        self.settings, self.sharding = settings, sharding
        self.parameters = dict(model.named_parameters())
        self.set(1.0, 0.95, settings.weight_decay)
        self.steps_taken = 0
        self._summed = False
        width = (model.config.n_embd / REFERENCE_WIDTH) ** -0.5
        matrices = [name for name in self.parameters if name.startswith("transformer.h.")]
        values = [name for name in self.parameters if name.startswith("value_embeds.")]
        embedding, scalar = settings.embedding_lr * width, settings.scalar_lr
        groups = [
            (["lm_head.weight"], AdamWRates(settings.unembedding_lr * width, (0.8, 0.96), 0.01)),
            (["transformer.wte.weight"], AdamWRates(embedding, (0.8, 0.995), 0.001)),
            (values, AdamWRates(embedding * 0.5, (0.8, 0.995), 0.01)),
            (["resid_lambdas"], AdamWRates(scalar * 0.01, (0.8, 0.95), 0.05)),
            (["x0_lambdas"], AdamWRates(scalar, (0.96, 0.95))),
            (["smear_gate.weight", "smear_lambda", "backout_lambda"], AdamWRates(SMEAR_LR, (0.8, 0.95))),
        ]
        self.muon_groups: list[Muon] = []
        if settings.matrix == "adamw":
            groups.append((matrices, AdamWRates(settings.matrix_lr, (0.9, 0.95), eps=1e-8, scheduled_decay=True)))
        else:
            orthogonal = model.compute_dtype
            for shape in sorted({self.parameters[name].shape for name in matrices}):
                names = [name for name in matrices if self.parameters[name].shape == shape]
                stack = [self.parameters[name] for name in names]
                self.muon_groups.append(Muon(names, stack, settings.matrix_lr, settings.version, orthogonal, sharding))
        self.adamw_groups = [
            AdamW(names, [self.parameters[name] for name in names], rates, sharding) for names, rates in groups
        ]
        self.groups = [*self.adamw_groups, *self.muon_groups]
        grouped = [name for group in self.groups for name in group.names]
        assert sorted(grouped) == sorted(self.parameters), "every parameter belongs to exactly one group"

    def set(self, lr_multiplier: float, momentum: float, muon_weight_decay: float) -> None:
        """What the schedule says for the coming step: a factor on every rate, and Muon's momentum and weight decay."""
        self.lr_multiplier, self.momentum, self.muon_weight_decay = lr_multiplier, momentum, muon_weight_decay

    def sum_gradients(self) -> None:
        """Add the gradients up over ranks, each slice on its owner. With several ranks the parameters' `.grad` is given up."""
        missing = [name for name, parameter in self.parameters.items() if parameter.grad is None]
        assert not missing, f"no gradient for {missing}"
        for group in self.groups:
            group.start_sum()
        for group in self.groups:
            group.finish_sum()
        if self.sharding.world > 1:
            for parameter in self.parameters.values():
                parameter.grad = None
        self._summed = True

    def step(self) -> None:
        """One update of all parameters, on all ranks."""
        if not self._summed:
            self.sum_gradients()
        for group in self.adamw_groups:
            group.start_step(self.lr_multiplier, self.muon_weight_decay)
        for group in self.muon_groups:
            group.start_step(self.lr_multiplier, self.momentum, self.muon_weight_decay)
        for group in self.groups:
            group.finish_step()
        self.steps_taken += 1
        self._summed = False

    def zero_grad(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None
        for group in self.groups:
            group.gradients = []
        self._summed = False

    def gradient_norms(self) -> Tensor:
        """The Euclidean norm of each parameter's gradient, float32, in the order of `parameters`; equal on all ranks."""
        own = self._own_gradients()
        norms = torch.stack(torch._foreach_norm(list(own.values()), 2, dtype=torch.float32))
        places = [place for place, name in enumerate(self.parameters) if name in own]
        # The square of a float32 is exact in float64, and so is the root of that: one rank's norms pass unchanged.
        squares = torch.zeros(len(self.parameters), dtype=torch.float64, device=norms.device)
        squares[places] = norms.double().square()
        return self.sharding.sum(squares).sqrt().float()

    @torch.no_grad()
    def first_nonfinite(self, of: str = "gradient") -> str | None:
        """Name of the first parameter whose gradient (or, `of="parameter"`, value) is not finite on some rank; None if all are.

        Cheap enough for every step: one norm a tensor and one wait for the device, and a closer look only where a norm is
        not finite.
        """
        tensors = self._own_gradients() if of == "gradient" else self.parameters
        norms = torch.stack(torch._foreach_norm(list(tensors.values()), 2, dtype=torch.float32))
        names = list(self.parameters)
        first = len(names)
        if not bool(norms.isfinite().all()):
            bad = [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]
            first = names.index(bad[0]) if bad else first
        first = self.sharding.least(first, norms.device)
        return names[first] if first < len(names) else None

    def _own_gradients(self) -> dict[str, Tensor]:
        """This rank's slices of the summed gradients, in the order of `parameters`, without those that hold nothing."""
        if not self._summed:
            self.sum_gradients()
        own = {}
        for group in self.adamw_groups:
            own |= dict(zip(group.names, group.gradients, strict=True))
        for group in self.muon_groups:
            own |= dict(zip(group.names[group.own], group.gradients, strict=True))
        return {name: own[name] for name in self.parameters if name in own and own[name].numel()}

    def state_dict_flat(self) -> dict[str, Tensor]:
        """All ranks' state by name, ready for safetensors: moments by parameter, Muon's stacked by group, the step count.

        Whatever the number of ranks it is the same. With several it comes, one tensor after the other, into the first rank's
        main memory; the others get nothing.
        """
        state = {"step": torch.tensor([self.steps_taken])}
        for name, own, length, shape in self._state():
            whole = self.sharding.gather(own, length)
            if whole is not None:
                state[name] = whole.view(shape)
        return state if self.sharding.rank == 0 else {}

    @torch.no_grad()
    def load_state_dict_flat(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state_dict_flat` gave; each rank takes its slices, one tensor after the other.

        Raises ValueError where names or shapes do not fit this model.
        """
        expected = {"step", *(name for name, *_ in self._state())}
        if expected != state.keys():
            raise ValueError(f"optimizer state does not fit this model: {sorted(expected ^ state.keys())}")
        for name, own, length, shape in self._state():
            whole = state[name]
            if whole.shape != shape:
                raise ValueError(f"optimizer state {name} has shape {tuple(whole.shape)}, not {tuple(shape)}")
            own.copy_(whole.reshape(length, *own.shape[1:])[self.sharding.own(length)])
        self.steps_taken = int(state["step"])
        for group in self.adamw_groups:
            for steps in group.steps:
                steps.fill_(self.steps_taken)

    def _state(self) -> Iterator[tuple[str, Tensor, int, torch.Size]]:
        """Every tensor of the state: its name, this rank's slice, the length of the axis that is cut, the whole's shape."""
        for group in self.adamw_groups:
            for name, p, first, second in zip(
                group.names, group.parameters, group.exp_avg, group.exp_avg_sq, strict=True
            ):
                yield f"exp_avg.{name}", first, p.numel(), p.shape
                yield f"exp_avg_sq.{name}", second, p.numel(), p.shape
        for index, group in enumerate(self.muon_groups, start=len(self.adamw_groups)):
            count = len(group.matrices)
            for kind, own in (("momentum_buffer", group.momentum_NRC), ("second_momentum_buffer", group.variance)):
                yield f"muon.group{index}.{kind}", own, count, torch.Size([count, *own.shape[1:]])
