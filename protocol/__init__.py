from typing import TYPE_CHECKING

if __name__ != "kvpoll.protocol":
    raise ImportError(
        f"import this room as 'kvpoll.protocol', not as {__name__!r}: a second copy would have a second KVPoll"
    )

if TYPE_CHECKING:
    from .plans import plan_dcp_relayout

__all__ = ["plan_dcp_relayout"]


def __getattr__(name: str) -> object:
    """Loaded when first used (PEP 562): it needs numpy, and importing this room must not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .plans import plan_dcp_relayout

    globals()[name] = plan_dcp_relayout
    return plan_dcp_relayout
