"""The optimizer of a NanoChat: Muon for the blocks' matrices, AdamW with rates of its own for everything else.

Groups, rates and betas are nanochat's. With `matrix: adamw` the blocks' matrices are moved by AdamW too, with `matrix_lr` and
nanoGPT's betas (0.9, 0.95) and ε 1e-8, and decay by the same schedule as under Muon; all other groups stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xsa.model.nanochat import NanoChat
from xsa.optim.adamw import AdamW, AdamWRates
from xsa.optim.muon import Muon
from xsa.study.stages import OptimStage

REFERENCE_WIDTH = 768  # the width at which the embedding and head rates are stated
SMEAR_LR = 0.2  # of the smear and backout parameters, whatever the other rates


class MuonAdamW:
    """Moves every parameter of the model, each in exactly one group.

    Before each step call `set` with the schedule's values; gradients are those in the parameters' `.grad`. `adamw_groups`
    and `muon_groups` hold names, rates and state.
    """

    def __init__(self, model: NanoChat, settings: OptimStage):
        self.settings = settings
        self.parameters = dict(model.named_parameters())
        self.set(1.0, 0.95, settings.weight_decay)
        self.steps_taken = 0
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
                self.muon_groups.append(Muon(names, stack, settings.matrix_lr, settings.version, orthogonal))
        self.adamw_groups = [AdamW(names, [self.parameters[name] for name in names], rates) for names, rates in groups]
        grouped = [name for group in (*self.adamw_groups, *self.muon_groups) for name in group.names]
        assert sorted(grouped) == sorted(self.parameters), "every parameter belongs to exactly one group"

    def set(self, lr_multiplier: float, momentum: float, muon_weight_decay: float) -> None:
        """What the schedule says for the coming step: a factor on every rate, and Muon's momentum and weight decay."""
        self.lr_multiplier, self.momentum, self.muon_weight_decay = lr_multiplier, momentum, muon_weight_decay

    def step(self) -> None:
        """One update of all parameters."""
        missing = [name for name, parameter in self.parameters.items() if parameter.grad is None]
        assert not missing, f"no gradient for {missing}"
        for group in self.adamw_groups:
            group.step(self.lr_multiplier, self.muon_weight_decay)
        for group in self.muon_groups:
            group.step(self.lr_multiplier, self.momentum, self.muon_weight_decay)
        self.steps_taken += 1

    def zero_grad(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    def gradient_norms(self) -> Tensor:
        """The Euclidean norm of each parameter's gradient, float32, in the order of `parameters`."""
        return torch.stack(torch._foreach_norm([p.grad for p in self.parameters.values()], 2, dtype=torch.float32))

    @torch.no_grad()
    def first_nonfinite(self, of: str = "gradient") -> str | None:
        """Name of the first parameter whose gradient (or, `of="parameter"`, value) is not finite; None if all are.

        Cheap enough for every step: one norm a tensor and one wait for the device, and a closer look only where a norm is
        not finite.
        """
        tensors = [p.grad if of == "gradient" else p for p in self.parameters.values()]
        norms = torch.stack(torch._foreach_norm(tensors, 2, dtype=torch.float32))
        if bool(norms.isfinite().all()):
            return None
        named = zip(self.parameters, tensors, strict=True)
        return next((name for name, tensor in named if not bool(tensor.isfinite().all())), None)

    def state_dict_flat(self) -> dict[str, Tensor]:
        """All state by name, ready for safetensors: moments by parameter, Muon's stacked by group, the step count."""
        state = {"step": torch.tensor([self.steps_taken])}
        for group in self.adamw_groups:
            for name, first, second in zip(group.names, group.exp_avg, group.exp_avg_sq, strict=True):
                state[f"exp_avg.{name}"], state[f"exp_avg_sq.{name}"] = first, second
        for index, group in enumerate(self.muon_groups, start=len(self.adamw_groups)):
            state[f"muon.group{index}.momentum_buffer"] = group.momentum_NRC
            state[f"muon.group{index}.second_momentum_buffer"] = group.variance
        return state

    @torch.no_grad()
    def load_state_dict_flat(self, state: dict[str, Tensor]) -> None:
        """Go on from what `state_dict_flat` gave. Raises ValueError where names or shapes do not fit this model."""
        own = self.state_dict_flat()
        if own.keys() != state.keys():
            raise ValueError(f"optimizer state does not fit this model: {sorted(own.keys() ^ state.keys())}")
        for name, tensor in own.items():
            if tensor.shape != state[name].shape:
                shapes = f"{tuple(state[name].shape)}, not {tuple(tensor.shape)}"
                raise ValueError(f"optimizer state {name} has shape {shapes}")
            tensor.copy_(state[name])
        self.steps_taken = int(state["step"])
        for group in self.adamw_groups:
            for steps in group.steps:
                steps.fill_(self.steps_taken)
