"""SASLprep (RFC 4013): names and passwords that look the same are the same.

Other spaces become a space, what is invisible goes, and the rest is brought into one form (NFKC). Control
characters, private ones, surrogates and unassigned ones are refused, and so are texts that mix directions.
Printable ASCII, which is what nearly everybody has, is left as it is.
"""

import stringprep
import unicodedata
from typing import Final

_PROHIBITED: Final = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


def saslprep(text: str) -> str:
    """The prepared text; ValueError, which does not repeat it, where it may not be used."""
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each for each in text if not stringprep.in_table_b1(each)
    )
    prepared = unicodedata.normalize("NFKC", mapped)
    for each in prepared:
        if any(is_in(each) for is_in in _PROHIBITED):
            raise ValueError(f"the character U+{ord(each):04X} is not allowed (RFC 4013)")
    if prepared:
        _check_direction(prepared)
    return prepared


def _check_direction(text: str) -> None:
    """Section 6 of RFC 3454: what has letters from right to left has no others, and is framed by them."""
    if not any(map(stringprep.in_table_d1, text)):
        return
    if any(map(stringprep.in_table_d2, text)):
        raise ValueError("letters of both directions are mixed (RFC 3454)")
    if not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])):
        raise ValueError("a text from right to left must begin and end so (RFC 3454)")
