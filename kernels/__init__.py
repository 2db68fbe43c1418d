if __name__ != "kvpoll.kernels":
    raise ImportError(f"import this room as 'kvpoll.kernels', not as {__name__!r}: a second copy would have a second KVPoll")
