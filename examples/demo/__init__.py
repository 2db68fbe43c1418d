"""A whole disaggregated service on one machine: a router, prefill and decode engines as processes, real KV, real faults.

Read in this order: ``setting`` (what is run), ``engine`` (the loop of an engine), ``ranks`` and ``legs`` (an engine of several
ranks, and a room at all of them), ``prefill`` and ``decode`` (what an engine does with kvpoll: this is the code that an
integration has), ``worker`` and ``processes`` (engines as processes), ``router`` and ``faults`` (who gets which room, and what
goes wrong), ``proof`` and ``report`` (was every row and token right, is everybody idle), ``main`` (all of it, from start to
end).
"""

import os

# Before jax is imported anywhere. One thread for each process, for five of them share the machine, and the CPU whatever
# else there is. The reference run has the same: another number of threads may be another order of summation.
_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
if _FLAGS not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAGS}".strip()
