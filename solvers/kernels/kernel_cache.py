"""Where a kernel's machine code comes from: the package itself, then numba's cache on disk, then the compiler.

numba's own cache makes a file in its folder before it reads there, which a read-only installation refuses. So what the
package carries (``carried``) is looked up here, and numba's cache is not made before something is missing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from numba.core import caching

from kanonflow.solvers.kernels.carried import carried_code


class KernelCache(caching._Cache):
    """numba's protocol of a cache, for one function. Threads take turns: numba holds its lock around each call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._enabled = True
        self._numbas: Any = None

    def _own(self) -> Any:
        """numba's cache of the function; one that keeps nothing where there is no folder to write to."""
        if self._numbas is None:
            try:
                self._numbas = caching.FunctionCache(self._function)
            except RuntimeError:
                # No folder that could be written to: it is compiled in each process.
                self._numbas = caching.NullCache()
        return self._numbas

    @property
    def cache_path(self) -> Any:
        """The folder of numba's cache for the function; None where there is none."""
        return self._own().cache_path

    def holds(self, signature: Any, target: Any) -> bool:
        """Whether the machine code for some argument types is carried or in numba's cache, as far as indexes tell."""
        target.refresh()
        if (code := carried_code()) is not None and code.holds(self._function, signature, target):
            return True
        own = self._own()
        if isinstance(own, caching.NullCache):
            return False
        return own._index_key(signature, target.codegen()) in own._cache_file._load_index()

    def stored(self, signature: Any, target: Any) -> Any:
        """What numba's cache has on disk for some argument types; None: nothing."""
        own = self._own()
        return own._cache_file.load(own._index_key(signature, target.codegen()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if not self._enabled:
            return None
        # Before anything is read from it.
        target_context.refresh()
        code = carried_code()
        found = None if code is None else code.load(self._function, sig, target_context)
        return found if found is not None else self._own().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._enabled:
            with _alone(self._own().cache_path):
                self._own().save_overload(sig, data)

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        self._own().flush()


def _alone(folder: str | None) -> AbstractContextManager[None]:
    """Until the end no other process writes to the folder of a cache.

    numba reads a function's index, adds a line and writes it. Two processes that do so at once can give one data file
    to two signatures, and the wrong code is run.
    """
    return nullcontext() if folder is None else locked(Path(folder) / ".writing")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock, which the kernel of the system frees when the process ends, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
