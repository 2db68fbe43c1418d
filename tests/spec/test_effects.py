"""Effects and causes are declared because something uses them."""

from kvpoll.spec import CATALOGUE, TABLES, Cause, Effect

#: Carried out when a link is made, before its machine has taken a step.
AT_START = {Effect.ARM_HELLO}
#: Given by the code around the tables: a refused call, a process that died, a link's own refusal.
OUTSIDE = {Cause.DRAINING, Cause.PROCESS_UNHEALTHY, Cause.WRONG_INSTANCE}


def test_every_effect_is_asked_for_by_a_row() -> None:
    assert {effect for table in TABLES.values() for row in table.rows for effect in row.effects} | AT_START == set(
        Effect
    )


def test_every_cause_is_in_the_catalogue_and_given_by_a_row_or_known_to_be_given_elsewhere() -> None:
    given = {row.cause for table in TABLES.values() for row in table.rows if row.cause is not None}
    assert set(CATALOGUE) == set(Cause) == given | OUTSIDE
    assert not given & OUTSIDE
