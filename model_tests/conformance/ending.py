"""The end of every case: rooms end, faults are over, memory comes back, and nothing is written late."""

from __future__ import annotations

from functools import partial

from .book import FORGED, HARMLESS, LIES, RANK, WHOLE, End, Room, sides_of
from .calls import ask
from .plug import DECODE, PREFILL, SIDES, Counted, Side
from .watch import Watch

__all__ = ["Ending"]

#: Faults with which the data stands still: only a limit, or heal(), ends the room.
_STILL = frozenset({"mover_stalls", "commit_stalls", "room_silent", "mismatched", "room_taken", *WHOLE})


class Ending:
    """See the module text."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.adapter = watch, watch.adapter

    def finish(self) -> None:
        watch = self.watch
        watch.say("suite", "ending")
        if "rank_late" in self._faults():
            for room in watch.rooms:
                room.wrong = room.wrong or ("rank_late" in room.faults and room.failed())  # it was too late
            watch.heal()
        watch.observe()
        for room in watch.rooms:
            watch.early(room)
        for room in watch.rooms:
            if room.complete and not set(room.faults) - HARMLESS:
                late = "KVX-RANK-6" if "rank_late" in room.faults else "KVX-MSG-2"
                self._succeeds(room, late if room.faults else "KVX-PAIR-1")
            elif room.complete and set(room.faults) == {"message_lost"} and len(room.faults) == 1:
                self._survives(room)
        for room in watch.rooms:
            if room.open:
                self._ends(room)
        if {"mover_unresolved", "mover_stalls", "commit_stalls"} & set(self._faults()) and "released" in watch.tags:
            watch.wait(
                lambda: not self._lent(), watch.limit("release")
            )  # who frees too early is seen when the data lands
        if any(room.faults for room in watch.rooms):
            watch.heal()
            watch.advance(watch.limits.react)
        self._memory()
        self._order()
        self._clear()
        self._nothing_left()

    # -- rooms ---------------------------------------------------------------------------------------------------------
    def _succeeds(self, room: Room, id: str) -> None:
        watch = self.watch
        watch.wait(lambda: not room.open, watch.limit("transfer"))
        bad = [end for end in room.ends.values() if end.state != 4]
        if bad:
            why = next((end.why for end in bad if end.why), "")
            watch.judge(id, f"room {room.label} is complete, and is not Success: {sides_of(room)}{why and ': '}{why}")

    def _survives(self, room: Room) -> None:
        """One message was lost, and nothing else."""
        watch = self.watch
        seconds = watch.limit("transfer") + watch.limit("resend")
        if not watch.wait(lambda: not room.open, seconds) or room.failed():
            watch.judge("KVX-KV-3", f"one message of room {room.label} was lost: {sides_of(room)}")
        if room.open:
            watch.wait(lambda: not room.open, watch.limit("ends"))
        states = {end.state for end in room.ends.values()}
        if room.open or len(states) > 1:
            watch.judge("KVX-MSG-1", f"one message of room {room.label} was lost: {sides_of(room)}")

    def _ends(self, room: Room) -> None:
        """It was given up, or hit by a fault, or is half done: it ends at both sides."""
        watch = self.watch
        lied = len(room.faults) == 1 and room.faults[0] in FORGED and room.faults != ["forged_passed"]
        if lied and room.failed() and not watch.wait(lambda: not room.open, watch.limit("abort")):
            # Whoever fails on a lie says so, too.
            watch.judge("KVX-KV-5", f"room {room.label} is not over after a lie: {sides_of(room)}")
        still = set(room.faults) & _STILL or "message_lost" in room.faults or "message_late" in room.faults
        still = still or FORGED.keys() & set(room.faults)
        still = still or ("rank_late" in room.faults and room.wrong)  # too late: the others were over by then
        if not room.given_up and not room.failed() and not still:
            if room.faults and room.complete:
                self._prompt(room, "error", "KVX-END-2")
            else:
                self._give_up(room)
        if room.open and not still:
            stopped = any(end.stopped for end in room.ends.values())
            given_up = any(end.aborted or end.cleared for end in room.ends.values())
            id = "KVX-STOP-3" if stopped else "KVX-ABORT-2" if given_up else "KVX-END-2"
            self._prompt(room, "abort" if stopped or given_up else "error", id)
        if not room.open:
            return
        if watch.limit("ends") <= watch.limits.react:
            watch.say("suite", "no limit", f"room {room.label}: no limit is declared that would end it")
            self._give_up(room)
            return
        watch.wait(lambda: not room.open, watch.limit("ends"))
        if room.open:
            sentence = f"room {room.label} does not end: {sides_of(room)} after {watch.limit('ends'):.3g} s"
            watch.judge("KVX-ABORT-3" if room.given_up and not room.faults else "KVX-END-1", sentence)
            for fault, id in _FAULTS.items():
                if fault in room.faults:
                    watch.judge(id, sentence)
            self._give_up(room)

    def _prompt(self, room: Room, limit: str, id: str) -> None:
        """It ends soon, if the other side can have heard of it."""
        watch = self.watch
        if room.given_up and not room.met:
            return
        if not watch.wait(lambda: not room.open, watch.limit(limit)):
            sentence = f"room {room.label} is not over after {watch.limit(limit):.3g} s ({limit}): {sides_of(room)}"
            watch.judge(id, sentence)
            if room.given_up and not room.faults:
                watch.judge("KVX-KV-5", sentence)
            if "rank_error" in room.faults:
                watch.judge("KVX-RANK-7", sentence)

    def _give_up(self, room: Room) -> None:
        """The suite ends what the script left open."""
        if "abort" not in self.watch.tags:
            return
        for end in sorted(room.open, key=lambda each: each.side):
            self.watch.say(end.side, "abort", f"room {room.label}: the suite gives it up")
            answer = ask(partial(self.adapter.abort, end.side, room.number))
            end.aborted = True
            room.met = room.met or room.told_by(end.side)
            self.watch.observe()
            if answer.ok and not end.over:
                self.watch.wait(lambda end=end: end.over, self.watch.limit("react"))  # type: ignore[misc]
            if not end.over:
                self.watch.judge("KVX-ABORT-1", f"room {room.label} at {end.side} is {end.state} after abort()")
            return

    # -- memory --------------------------------------------------------------------------------------------------------
    def _memory(self) -> None:
        """It comes back, and is left alone from then on."""
        watch = self.watch
        if "released" in watch.tags:
            seconds = watch.limit("release") + (watch.limit("ends") if set(self._faults()) & WHOLE else 0.0)
            if any(fault.startswith(("message", "forged")) for fault in self._faults()):
                seconds += watch.limit("resend")
            if any(fault.startswith("forged") or fault == "room_taken" for fault in self._faults()):
                seconds += watch.limit("ends")
            if not watch.wait(lambda: not self._lent(), seconds):
                for room, end in self._lent():
                    where = f"room {room.label} at {end.side} ({sides_of(room)})"
                    sentence = f"pages of {where} are not free after {seconds:.3g} s"
                    watch.judge("KVX-MEM-5", sentence)
                    if end.stopped:
                        watch.judge("KVX-STOP-4", sentence)
                    if RANK & set(room.faults):
                        watch.judge("KVX-RANK-5", sentence)
        for _ in range(5):
            watch.advance(watch.limits.late / 5)
        watch.compare()

    def _faults(self) -> list[str]:
        return [fault for room in self.watch.rooms for fault in room.faults]

    def _lent(self) -> list[tuple[Room, End]]:
        """Whose pages have not come back."""
        found = []
        for room in self.watch.rooms:
            for end in room.ends.values():
                lent = room.meta and room.target if end.side == DECODE else room.sent
                if end.side == DECODE and LIES & set(room.faults):
                    continue  # it has told the other side that nothing is to be said any more
                current = self.watch.current[room.label]
                mine = current is room or end.side not in current.ends
                if lent and mine and not end.dead and not end.released and (end.over or end.cleared):
                    found.append((room, end))
        return found

    # -- afterwards ----------------------------------------------------------------------------------------------------
    def _order(self) -> None:
        for room in self.watch.rooms:
            prefill, decode = room.end(PREFILL), room.end(DECODE)
            if LIES & set(room.faults):
                continue  # the prefill side has been told that its data is there
            if prefill is not None and decode is not None and prefill.state == 4 and decode.state == 0:
                sentence = f"room {room.label} is Success at prefill and Failed at decode"
                self.watch.judge("KVX-DATA-3", sentence)
                self.watch.judge("KVX-KV-1", sentence)

    def _clear(self) -> None:
        """Leave nothing behind for the next case."""
        if "clear" not in self.watch.tags:
            return
        for room in self.watch.rooms:
            for end in room.ends.values():
                if end.alive and self.watch.current[room.label] is room:
                    ask(partial(self.adapter.clear, end.side, room.number))
                    end.cleared = True

    def _nothing_left(self) -> None:
        """Every room is over and cleared: nothing is kept of any."""
        watch, adapter = self.watch, self.adapter
        if "left" not in watch.tags or "clear" not in watch.tags or not isinstance(adapter, Counted):
            return
        if any(room.open for room in watch.rooms) or "forged_passed" in self._faults():
            return  # that was said of every room up to there
        liar = (
            {DECODE} if LIES & set(self._faults()) else set[Side]()
        )  # who said that it was done keeps what it still has

        def left() -> dict[Side, int]:
            asked = [side for side in SIDES if side not in watch.blind | liar]
            return {side: watch.must(partial(adapter.left, side), "left") for side in asked}

        seconds = watch.limit("release") + watch.limit("ends")
        if not watch.wait(lambda: not any(left().values()), seconds):
            kept = ", ".join(f"{number} at {side}" for side, number in left().items() if number)
            watch.judge(
                "KVX-MEM-8", f"of rooms that are over and cleared something is kept after {seconds:.3g} s: {kept}"
            )


#: Which requirement a room that does not end breaks, by its fault.
_FAULTS: dict[str, str] = {
    "mover_error": "KVX-FAULT-1", "mover_raises": "KVX-FAULT-2", "mover_stalls": "KVX-FAULT-3",
    "mover_unresolved": "KVX-FAULT-4", "peer_silent": "KVX-TIME-3", "peer_killed": "KVX-TIME-4",
    "room_silent": "KVX-TIME-7", "commit_fails": "KVX-FAULT-6", "commit_stalls": "KVX-FAULT-7",
    "rank_error": "KVX-RANK-2", "rank_killed": "KVX-RANK-3", "rank_silent": "KVX-RANK-4",
    "mismatched": "KVX-PAIR-9", "peer_full": "KVX-PAIR-10", "aux_wrong": "KVX-DATA-5", "room_taken": "KVX-REUSE-4",
    **FORGED,
}  # fmt: skip
