"""The conformance suite: requirements, cases, and one driver that judges any engine through a small plug.

* :mod:`.plug` is what an engine offers: the adapter. STABLE.
* :mod:`.result` is what a run writes: one JSON document. STABLE; every report is made from it.
* :mod:`.case` and :mod:`.cases` are what is done and expected; ``kvpoll.spec.requirements`` says what it is about.
* :mod:`.driver` runs a case and judges; :mod:`.run` runs many and keeps the books.
* :mod:`.process` speaks to an adapter in another process; :mod:`.host` is the other end of that, for Python.
* :mod:`.reference` is kvpoll's own core behind the plug; :mod:`.variants` and :mod:`.wrong` are other ones, right and wrong.
"""
