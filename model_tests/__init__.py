if __name__ != "kvpoll.model_tests":
    raise ImportError(
        f"import this room as 'kvpoll.model_tests', not as {__name__!r}: a second copy would have a second KVPoll"
    )
