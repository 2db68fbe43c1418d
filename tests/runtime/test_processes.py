"""Hand-offs between real processes, and what the survivor does when the other one is killed, stopped or restarted."""

from __future__ import annotations

import numpy as np
import pytest

from kvpoll.spec import KVPoll

from .engines import LOSING, PATIENCE, Engine, Room, cause
from .processes import Child


def decoding(no: int, d: Engine, child: Child) -> Room:
    """A room whose prefill end is in the child, up to the point where everything is here."""
    room = Room(None, d, no, address=child.address)
    room.decode()
    room.source = child.ask("prefill", room=no)["source"]
    room.arrives()
    return room


def fails(engine: Engine, room: Room, end: str) -> None:
    handle = room.sender if end == "sender" else room.receiver
    assert handle is not None
    assert engine.manager.wait(lambda: handle.poll() in (KVPoll.Failed, KVPoll.Success), PATIENCE)
    assert (handle.poll(), cause(handle)) == (KVPoll.Failed, "PEER_LOST")


@pytest.mark.parametrize("transport", ["zmq", pytest.param("jax", marks=pytest.mark.deep)])
def test_the_bytes_are_the_same_in_another_process(transport: str) -> None:
    pattern = Engine("prefill", "inproc")  # every prefill engine of these tests holds the same pattern
    pattern.manager.close()
    with Child("prefill", transport) as child:
        d = Engine("decode", transport, durations=LOSING)
        for no in range(3):
            room = decoding(no, d, child)
            room.commit()
            assert child.ask("end", room=no) == {"state": "Success", "cause": ""}
            for mine, theirs in zip(pattern.pool, d.pool, strict=True):
                assert np.array_equal(mine[room.source], theirs[room.target])
        d.becomes_idle()
        child.ask("idle")
        assert d.manager.close() == {}
        assert child.close() == {}


def test_a_killed_prefill_process_ends_its_rooms_here_and_its_successor_serves_the_next() -> None:
    d = Engine("decode", durations=LOSING)
    with Child("prefill") as child:
        ready = decoding(1, d, child)
        waiting = Room(None, d, 2, address=child.address)
        waiting.decode()
        port = int(child.address.rsplit(":", 1)[1])
        child.kill()
        fails(d, waiting, "receiver")
        assert ready.receiver.poll() is KVPoll.Transferring, "everything is here: nobody is needed any more"
        ready.commit()
        assert ready.receiver.poll() is KVPoll.Success
        d.becomes_idle()
    with Child("prefill", port=port) as successor:
        room = decoding(3, d, successor)
        room.commit()
        assert successor.ask("end", room=3)["state"] == "Success"
        d.becomes_idle()
        assert d.manager.close() == {}
        assert successor.close() == {}


def test_a_killed_decode_process_ends_its_rooms_here_and_leaves_nothing_behind() -> None:
    p = Engine("prefill", durations=LOSING)
    with Child("decode") as child:
        rooms = [Room(p, None, no) for no in (1, 2)]
        for room in rooms:
            child.ask("decode", room=room.no, address=p.manager.address)
        rooms[0].prefill(2)
        sender = rooms[0].sender
        assert sender is not None
        assert p.manager.wait(lambda: sender.poll() is KVPoll.Transferring, PATIENCE)
        child.kill()
        fails(p, rooms[0], "sender")
        error = sender.failure_exception()
        assert error is not None
        assert error.failure.in_doubt, "everything was sent: it may have been committed"
        p.becomes_idle()
    assert p.manager.close() == {}


def test_a_stopped_decode_process_is_given_up_and_learns_of_it_when_it_goes_on() -> None:
    p = Engine("prefill", durations=LOSING)
    with Child("decode") as child:
        child.ask("decode", room=1, address=p.manager.address)
        room = Room(p, None, 1)
        room.prefill(2)
        sender = room.sender
        assert sender is not None
        child.ask("arrives", room=1)
        child.ask("decode", room=2, address=p.manager.address)
        child.stop()
        fails(p, room, "sender")
        p.becomes_idle()
        child.resume()
        assert child.ask("end", room=2) == {"state": "Failed", "cause": "PEER_LOST"}
        assert child.ask("commit", room=1) == {"state": "Success"}, "it had everything, and decides alone"
        child.ask("idle")
        again = Room(p, None, 3)
        child.ask("decode", room=3, address=p.manager.address)
        again.prefill()
        assert child.ask("commit", room=3) == {"state": "Success"}
        assert p.manager.wait(lambda: again.sender is not None and again.sender.poll() is KVPoll.Success, PATIENCE)
        p.becomes_idle()
        assert child.close() == {}
    assert p.manager.close() == {}
