"""What stands in an optimizer's `state` while the values lie in flat buffers: empty, and saying so when it is asked."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NoReturn

from ..state import DistifyError


class HiddenState(defaultdict[Any, Any]):
    """No state. Clearing it is allowed: the optimizer begins afresh then, as torch's does.

    Args:
        name: of the optimizer, for the message.

    Attributes:
        cleared: whether it was cleared.
    """

    def __init__(self, name: str) -> None:
        super().__init__(dict)
        self.name = name
        self.cleared = False

    def clear(self) -> None:
        """Note that the optimizer is to begin afresh."""
        self.cleared = True

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise DistifyError(
            f"the state of {self.name} was looked at, but it lies in flat buffers of DeepSpeed. Read it with "
            "runtime.state_dict(optimizer), change it with runtime.load_state_dict(optimizer, state), or use "
            "backend='fsdp'; optimizer.state.clear() lets the optimizer begin afresh."
        )

    __missing__ = __contains__ = __setitem__ = __delitem__ = _refuse
    get = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> Any:
        return defaultdict, (dict,)  # a copy is a copy of nothing

    def __copy__(self) -> Any:
        return defaultdict(dict)

    def __deepcopy__(self, memo: Any) -> Any:
        return defaultdict(dict)
