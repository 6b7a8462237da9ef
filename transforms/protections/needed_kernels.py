"""Which kernels windows under a policy are released with."""

from __future__ import annotations

from typing import NamedTuple

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.warm_up import kernel_sets, warm_up, warm_up_merging
from kanonflow.transforms.protections.protection_of import protection_of


class Kernels(NamedTuple):
    """What it hangs on. shape, ruled, hierarchies, loss, merging: as of ``solvers.warm_up.kernel_sets``.

    names: of method and start: what a package brings is loaded with its kernels.
    """

    shape: str
    ruled: bool
    hierarchies: bool
    loss: str
    merging: bool
    names: tuple[str, ...]

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets of kernels."""
        return kernel_sets(
            self.shape, ruled=self.ruled, hierarchies=self.hierarchies, loss=self.loss, merging=self.merging
        )

    def load(self) -> None:
        """Call each once, so that it is there."""
        warm_up(self.shape, self.ruled and not self.merging, self.hierarchies, self.loss, self.names)
        if self.merging:
            warm_up_merging(self.hierarchies, self.ruled)


def needed_kernels(bound: BoundPolicy) -> Kernels:
    """The kernels of a policy over an input."""
    policy, protection = bound.policy, protection_of(bound.policy)
    return Kernels(
        protection.shape,
        bool(policy.ruled),
        holds_hierarchies(bound),
        policy.solver.loss,
        protection.merges,
        (policy.solver.method, policy.solver.start),
    )


def holds_hierarchies(bound: BoundPolicy) -> bool:
    """Whether a quasi-identifier has a hierarchy: for such tables every kernel is compiled by itself."""
    return any(column.tree is not None for column in bound.quasis)
