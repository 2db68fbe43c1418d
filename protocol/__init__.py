if __name__ != "kvpoll.protocol":
    raise ImportError(
        f"import this room as 'kvpoll.protocol', not as {__name__!r}: a second copy would have a second KVPoll"
    )
