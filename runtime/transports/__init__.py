"""Transports of the data plane, found through the entry-point group ``kvpoll.transports``."""
