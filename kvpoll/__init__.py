"""kvpoll: the prefill-to-decode KV-cache hand-off protocol, formally modelled."""
