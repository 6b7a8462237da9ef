"""``@kernel``: a function that numba compiles, and whose machine code is looked up where the package keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numba
from numba.core.dispatcher import Dispatcher

from kanonflow.solvers.kernels.kernel_cache import KernelCache

# Without what lets Python and C call it, which unpacks every array of every argument: up to half of what a small
# function takes to compile, and two more copies of one that is inlined.
_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@overload
def kernel(function: Callable[..., Any], /) -> Any: ...


@overload
def kernel(
    *, inner: bool = ..., counting: bool = ..., **options: Any
) -> Callable[[Callable[..., Any]], Any]: ...


def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    inner: bool = False,
    counting: bool = True,
    **options: Any,
) -> Any:
    """``numba.njit`` without the GIL, cached. inner: called by other kernels only; Python cannot call it.

    counting: False for one that neither makes nor returns arrays, nor calls what returns one. Its arguments outlive the
    call, so their references need no counting, which is atomic: a state of forty arrays cost a scan half as much again.
    numba refuses to compile one that makes an array after all. options: further ones of ``numba.njit``.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        # Always said: a kernel that is compiled for another's call would take it over.
        options["_nrt"] = counting
        made = numba.njit(nogil=True, **(_INNER if inner else {}), **options)(function)
        # With NUMBA_DISABLE_JIT it is the function itself.
        if isinstance(made, Dispatcher):
            dispatcher: Any = made
            dispatcher._cache = KernelCache(function)
        return made

    return compiled if function is None else compiled(function)
