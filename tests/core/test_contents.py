"""What a sequence keeps on the host: columns cut within images, and images written in parts."""

from types import SimpleNamespace

import numpy as np

from mmspec.decoding.contents import Row
from mmspec.decoding.contract import Segment
from mmspec.ground.tokens import NO_TOKEN, PADDING


class Image:
    """Features of `count` positions, whose embeddings are numbers from `first` on."""

    grid = SimpleNamespace(rotary=None)

    def __init__(self, first, count):
        self.rows = np.arange(first, first + count, dtype=np.float32)[:, None]

    @property
    def positions(self):
        return len(self.rows)


def embeddings(image):
    return image.rows


def row_of(*parts):
    row = Row()
    row.append(0, Segment(list(parts)), embeddings)
    return row


def written(row, start, stop):
    """The embeddings that the images write into columns of 0."""
    x = np.zeros((stop - start, 1), np.float32)
    row.write_images(x, start, stop)
    return x[:, 0].tolist()


def test_images_are_written_in_parts_as_whole():
    row = row_of([5], Image(10, 4), [6], Image(20, 3), [7])
    whole = written(row, 0, 10)
    assert whole == [0, 10, 11, 12, 13, 0, 20, 21, 22, 0]
    for start in range(10):
        for stop in range(start, 11):
            assert written(row, start, stop) == whole[start:stop]
            assert row.image_width(start, stop) == any(whole[start:stop])


def test_a_row_that_was_cut_anywhere_goes_on_with_text():
    for length in range(11):
        row = row_of([5], Image(10, 4), [6], Image(20, 3), [7])
        before = written(row, 0, length), row.tokens[:length]
        row.extend(length, [8, 9])
        assert written(row, 0, length + 2) == [*before[0], 0, 0]
        assert row.tokens == [*before[1], 8, 9]
        assert not row.image_width(length, 99)


def test_padding_counts_in_no_length_and_invalid_ids_become_the_nearest():
    row = row_of([5])
    row.append(1, Segment([Image(10, 2), [6]]), embeddings, padding=2)
    assert row.tokens == [5, PADDING, PADDING, NO_TOKEN, NO_TOKEN, 6]
    assert [row.length(columns) for columns in range(7)] == [0, 1, 1, 1, 2, 3, 4]
    assert written(row, 0, 6) == [0, 0, 0, 10, 11, 0]
    assert row.ids(0, 6, 6) == [5, 0, 0, 0, 0, 5]
