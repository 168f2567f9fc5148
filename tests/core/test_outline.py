"""Slots, runs and packing against the slot-by-slot rule, written out without any arithmetic."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mmspec.decoding.contract import Segment
from mmspec.drafters.heads.packing import Outline
from support.scripted import ScriptedFeatures


def sequence(parts):
    """A segment of text lengths (positive) and images (negative), and its columns' names."""
    shown, columns = [], []
    for number, part in enumerate(parts):
        shown.append(ScriptedFeatures(str(number), -part) if part < 0 else [7] * part)
        columns += [(number, place) if part < 0 else None for place in range(abs(part))]
    return Segment(shown), columns


def met(columns):
    """Per slot, the image whose column comes next; None where it is text."""
    return [column and column[0] for column in columns[1:]]


def outlined(outline, start, stop):
    """The same from the runs, and the rows they take; every image is whole."""
    said, rows = [], 0
    for run in outline.runs(start, stop):
        number = None if run.image is None else outline.images.index(run.image)
        said += [number] * (run.stop - run.start)
        rows += outline.image_rows if run.image and outline.image_rows else run.stop - run.start
    return said, rows


PARTS = st.lists(st.one_of(st.integers(1, 4), st.integers(-5, -1)), min_size=1, max_size=8)


@settings(max_examples=60)
@given(PARTS, st.sampled_from([0, 1, 3, 7]), st.lists(st.integers(0, 40), max_size=4))
def test_runs_are_the_slots_one_by_one_however_they_are_fed(parts, packed, cuts):
    segment, columns = sequence(parts)
    outline = Outline(apart=True, image_rows=packed).with_segment(segment)
    numbers = [number for number, part in enumerate(parts) if part < 0]
    slots = outline.slots
    expected = [None if each is None else numbers.index(each) for each in met(columns)][:slots]
    said, rows, at = [], 0, 0
    for stop in sorted({outline.whole_slots(min(cut, slots)) for cut in cuts} | {slots}):
        assert outline.rows(at) == rows
        more, taken = outlined(outline, at, stop)
        said, rows, at = said + more, rows + taken, stop
    assert said == expected
    assert outline.rows(slots) == rows
    pairs, unpacked = (Outline(apart).with_segment(segment) for apart in (False, True))
    assert list(pairs.runs(0, slots)) == [(0, slots, None)] * bool(slots)
    assert pairs.rows(slots) == unpacked.rows(slots) == slots


def test_rows_in_place_stand_at_their_slots_and_images_at_their_last():
    """Two words, four patches, one word, three patches, two words; two rows an image."""
    segment, _ = sequence([2, -4, 1, -3, 2])
    outline = Outline(apart=True, image_rows=2, in_place=True).with_segment(segment)
    assert outline.positions(0, outline.slots) == [0, 3, 4, 5, 7, 8, 9, 10]
    assert outline.positions(5, 6) == [5]
    assert outline.position(outline.slots) == outline.slots
    images = [outline.last_image(slot) for slot in (0, 4, 5, 8, 9)]
    assert images == [None, None, (2, 6), (2, 6), (7, 10)]
    counted = Outline(apart=True, image_rows=2).with_segment(segment)
    assert counted.positions(0, counted.slots) == list(range(8))
    assert counted.position(counted.slots) == 8
