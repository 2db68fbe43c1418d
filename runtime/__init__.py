if __name__ != "kvpoll.runtime":
    raise ImportError(f"import this room as 'kvpoll.runtime', not as {__name__!r}: a second copy would have a second KVPoll")
