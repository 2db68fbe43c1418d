"""A page of English, and prompts cut from it at the lengths where paging goes wrong: one token, and page borders."""

import random
from collections.abc import Sequence

TEXT = """\
The ferry to the island left twice a day, once with the mail and once without, and people who lived there set their
clocks by the one that carried letters. Marta had taken it for eleven years. She ran the small post office at the
top of the harbour steps, a single room with a counter, a stove and a wall of wooden boxes that her predecessor had
numbered from the bottom up, so that the tallest people in the village had the highest numbers. Nobody had ever
changed it. When a family moved away, its box was left empty for a winter, and in spring it was given to whoever
asked first.

On the morning of the storm the mail came early. The captain had seen the sky turn the colour of slate and had
decided, without asking anyone, that letters were better wet in the office than dry at the bottom of the sea. He
carried the bags up himself, two at a time, and set them down in the order in which he had loaded them. Marta signed
for nine. Then she counted again and found ten, because one of the bags had been tied to another, and its label had
turned inwards.

"That one is not ours," said the captain. "It was for the lighthouse."

"The lighthouse has had no keeper since the autumn," said Marta. "Who writes to a lamp?"

They opened it together, which they both knew was against the rules, and found that it held a single parcel. On it
stood the name of a man who had mended the great lens for forty years and who had been buried in April, within sight
of it. The sender had written, in a careful hand, that if the parcel could not be delivered it must be returned, and
that if it could not be returned it must be kept. There was no third instruction. Marta read the line twice and
thought that it was the most sensible thing she had seen on paper for a long time. Most people, she had found,
planned for one thing to go wrong; very few wrote down what should happen when the remedy failed as well.

By noon the wind had taken the bell from the school roof and rolled it as far as the baker's door. The telephone
line went next. Marta lit the stove, locked the shutters and did what she always did when the world outside became
too loud: she sorted. Bills to the left, letters to the right, newspapers in the basket, and everything that was
addressed to somebody who could not be found on the high shelf behind her, in a box without a number. The parcel
from the tenth bag went there too. She wrote its date and its weight in the ledger, and in the last column, where
the clerk enters the name of the person who has received the thing, she drew a short line, so that anyone who came
after her would know that the space had been seen, and had been left empty on purpose.

It stayed there for six years. In the seventh a young woman came up the steps with the lens-mender's nose and asked,
in a voice that expected to be disappointed, whether anything had ever arrived for her grandfather. Marta did not
need to look it up. She climbed on the stool, took down the box, blew the dust from the lid and turned the ledger
round, so that the visitor could sign on the line.
"""


def cut_prompts(n: int, page_size: int, seed: int = 0) -> list[str]:
    """`n` pieces of TEXT, the same for the same arguments. The text is ASCII, so a character is a byte is a token.

    The lengths run through 1, page - 1, page, page + 1, two pages, two pages + 1 and several hundred, and are random
    after that; no prompt is empty or longer than TEXT.
    """
    chance = random.Random(seed)
    edges = [1, page_size - 1, page_size, page_size + 1, 2 * page_size, 2 * page_size + 1, chance.randint(300, 600)]
    lengths = edges + [chance.randint(1, 600) for _ in range(n - len(edges))]
    prompts = []
    for length in lengths[:n]:
        length = min(max(length, 1), len(TEXT))
        start = chance.randint(0, len(TEXT) - length)
        prompts.append(TEXT[start : start + length])
    return prompts


def prompts_of(lengths: Sequence[int], seed: int = 0) -> list[str]:
    """Pieces of TEXT of exactly these lengths, the same for the same arguments. ValueError for one that is not 1 to len(TEXT)."""
    chance = random.Random(seed)
    prompts = []
    for length in lengths:
        if not 1 <= length <= len(TEXT):
            raise ValueError(f"lengths: expected 1..{len(TEXT)}, got {length}")
        start = chance.randint(0, len(TEXT) - length)
        prompts.append(TEXT[start : start + length])
    return prompts
