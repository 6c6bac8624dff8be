"""The outputs of a command in one log: no line is split by another output's, and none is lost."""

from __future__ import annotations

import io

from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from runlake.masking import Mask
from runlake.outputs import MergedLog, Output

LETTERS = "ab", "xy"
LINE_BYTES = 4
READS = st.lists(
    st.one_of(
        *(st.tuples(st.just(number), st.text(letters + "\n", min_size=1, max_size=6)) for number, letters in enumerate(LETTERS))
    )
)


def merged(reads: list[tuple[int, str]]) -> tuple[list[str], str]:
    """The copy of each output, and the log of both."""
    copies = [io.BytesIO() for _ in LETTERS]
    outputs = [Output(0, copy, Mask([]).stream(), LINE_BYTES) for copy in copies]
    written = bytearray()
    log = MergedLog(written.extend)
    for number, text in reads:
        log.add(outputs[number], outputs[number].put(text.encode()))
    for output in outputs:
        log.add(output, output.end())
    log.end()
    return [copy.getvalue().decode() for copy in copies], written.decode()


@examples(deadline=None)  # the machine may be busy
@given(READS)
@example([(0, "ab"), (1, "x"), (0, "a\nb"), (1, "y")])
@example([(0, "aaaaaa"), (1, "xxxxxx\n"), (0, "a\n")])
def test_no_output_cuts_a_line_of_another(reads: list[tuple[int, str]]) -> None:
    """Only a line that is too long may end early."""
    texts = ["".join(text for number, text in reads if number == output) for output in range(len(LETTERS))]
    copies, log = merged(reads)
    assert copies == texts
    archived = [line for line in log.split("\n") if line]
    for text, letters in zip(texts, LETTERS, strict=True):
        own = [line for line in archived if set(line) & set(letters)]
        assert "".join(own) == text.replace("\n", ""), "a line has bytes of two outputs, or some are lost"
        if all(len(line) <= LINE_BYTES for line in text.split("\n")):
            assert own == [line for line in text.split("\n") if line]
    for text, other in (texts, texts[::-1]):
        if not other:
            assert log == text + ("" if text.endswith("\n") or not text else "\n")


def test_lines_are_in_the_order_of_their_ends() -> None:
    assert merged([(0, "a"), (1, "x\n"), (0, "\nbb"), (1, "y")]) == (["a\nbb", "x\ny"], "x\na\nbb\ny\n")
