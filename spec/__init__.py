if __name__ != "kvpoll.spec":
    raise ImportError(f"import this room as 'kvpoll.spec', not as {__name__!r}: a second copy would have a second KVPoll")
