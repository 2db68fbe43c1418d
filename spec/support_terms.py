"""The cells about everything that is not topology: who the ends are, what they can do, and how long they wait."""

from __future__ import annotations

from .support_words import Cell, Relation, Section, convert, fits, refuse

__all__ = ["RESENDS", "TERMS"]

#: Re-sends in a row that a deadline must survive (k in "deadline >= (k + 1) re-send intervals").
RESENDS = 3

_R = Relation
_ALIKE = refuse(
    "the draft would start from hidden states that were never sent", "configure speculative decoding alike at both ends"
)
_TRUST = convert("trust", "a revision that is not stated cannot be compared; state it at both ends")
_RING = convert("unused", "staging is for unequal tensor parallel sizes, and only if both ends state it alike")
_REUSE = "requests cannot be told apart by content"

# fmt: off
_IDENTITY = (
    Cell("role", _R.HOLDS, fits("one end is prefill, the other decode")),
    Cell("role", _R.BROKEN, refuse("data goes from prefill to decode only", "make one end prefill and the other decode")),
    Cell("version", _R.HOLDS, fits("both speak it")),
    Cell("version", _R.BROKEN, refuse("no version is spoken by both ends", "upgrade the older end")),
    Cell("capabilities", _R.EQUAL, fits()),
    Cell("capabilities", _R.DIFFERENT, convert("common", "both use only what both have")),
    Cell("model", _R.EQUAL, fits()),
    Cell("model", _R.DIFFERENT, refuse("KV data of another model is meaningless", "load the same model at both ends")),
    Cell("weights", _R.EQUAL, fits()),
    Cell("weights", _R.SENDER_ONLY, _TRUST),
    Cell("weights", _R.RECEIVER_ONLY, _TRUST),
    Cell("weights", _R.NEITHER, _TRUST),
    Cell("weights", _R.DIFFERENT, refuse("KV data of other weights gives silently worse text", "finish the rollout first")),
)

_FEATURES = (
    Cell("ep_size", _R.EQUAL, fits()),
    Cell("ep_size", _R.DIFFERENT, convert("indifferent", "experts hold no KV data")),
    Cell("speculative", _R.NEITHER, fits("no draft at either end")),
    Cell("speculative", _R.EQUAL, fits("configured alike")),
    Cell("speculative", _R.REPLICATED, convert("dcp-draft", "draft rows are not shared out: every decode rank takes all tokens")),
    Cell("speculative", _R.SENDER_ONLY, _ALIKE),
    Cell("speculative", _R.RECEIVER_ONLY, _ALIKE),
    Cell("speculative", _R.DIFFERENT, _ALIKE),
    Cell("capabilities.radix", _R.NEITHER, fits("chunk cache: decode holds nothing of a prompt and takes all of it")),
    Cell("capabilities.radix", _R.SENDER_ONLY, fits("what prefill reuses of its own is in its pages like the rest")),
    Cell("capabilities.radix", _R.RECEIVER_ONLY, convert(
        "suffix", "only the tokens after the prefix that decode holds are sent")),
    Cell("capabilities.radix", _R.EQUAL, convert("suffix", "only the tokens after the prefix that decode holds are sent")),
)

_EXCHANGE = (
    Cell("digests", _R.EQUAL, fits()),
    Cell("digests", _R.SENDER_ONLY, convert("no-reuse", f"{_REUSE} at decode: room ids are not used again")),
    Cell("digests", _R.RECEIVER_ONLY, convert("no-reuse", f"{_REUSE} at prefill: room ids are not used again")),
    Cell("digests", _R.NEITHER, convert("no-reuse", f"{_REUSE}: room ids are not used again")),
    Cell("max_parts", _R.EQUAL, fits()),
    Cell("max_parts", _R.DIFFERENT, convert("smaller", "prefill plans no more parts than the smaller limit")),
    Cell("transports", _R.HOLDS, fits("at least one fits both ends")),
    Cell("transports", _R.BROKEN, refuse("no transport fits both ends", "offer one at both ends, with the same settings")),
    Cell("aux", _R.NEITHER, fits("no aux data at either end")),
    Cell("aux", _R.EQUAL, fits()),
    Cell("aux", _R.DIFFERENT, convert("common", "aux fields are paired by name")),
    Cell("aux", _R.SENDER_ONLY, convert("unsent", "decode takes no aux data: it is not sent")),
    Cell("aux", _R.ELSEWHERE, fits("another prefill rank brings it")),
    Cell("aux", _R.RECEIVER_ONLY, refuse(
        "decode waits for aux data that prefill does not have", "configure the aux buffers at prefill too")),
    Cell("aux.field", _R.EQUAL, fits()),
    Cell("aux.field", _R.DIFFERENT, refuse("the two buffers differ in dtype or shape", "declare the buffer alike at both ends")),
    Cell("aux.field", _R.SENDER_ONLY, convert("unsent", "decode does not know this field: it is not sent")),
    Cell("aux.field", _R.ELSEWHERE, fits("another prefill rank brings it")),
    Cell("aux.field", _R.RECEIVER_ONLY, refuse(
        "decode waits for this field and prefill does not have it", "add the buffer at prefill")),
    Cell("staging", _R.NEITHER, fits("parts go straight to their pages")),
    Cell("staging", _R.EQUAL, fits()),
    Cell("staging", _R.DIFFERENT, _RING),
    Cell("staging", _R.SENDER_ONLY, _RING),
    Cell("staging", _R.RECEIVER_ONLY, _RING),
)

_DEADLINES = (
    Cell("deadlines.total", _R.HOLDS, fits("prefill outlives decode and its conclusion")),
    Cell("deadlines.total", _R.BROKEN, refuse(
        "prefill would give up a room that decode still works on",
        "make prefill's total at least decode's total plus decode's conclude span")),
    Cell("deadlines.resend", _R.HOLDS, fits("messages are re-sent in time")),
    Cell("deadlines.resend", _R.BROKEN, refuse("nothing would ever be said again", "set a re-send interval above zero")),
    *(cell for name in ("pairing", "silence", "lost", "conclude") for cell in (
        Cell(f"deadlines.{name}", _R.HOLDS, fits("longer than the re-sends it must survive")),
        Cell(f"deadlines.{name}", _R.BROKEN, refuse(
            f"{RESENDS} lost messages in a row would end a room",
            f"make it at least {RESENDS + 1} re-send intervals of the slower end, at both ends")),
    )),
)
# fmt: on

TERMS: tuple[Section, ...] = (
    Section("Speculative decoding, caches, experts", _FEATURES),
    Section("Who the ends are", _IDENTITY),
    Section("The exchange", _EXCHANGE),
    Section("Deadlines", _DEADLINES),
)
