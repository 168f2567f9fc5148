"""Pictures from files: their colours and their content, and what is refused by name."""

import io
import struct
import sys
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image, ImageOps

from mmspec.ground.errors import ImageError
from mmspec.prompt.any_image import pictures_of
from mmspec.prompt.film import open_clip
from mmspec.prompt.images import MAX_ASPECT, Picture, decode_picture, open_picture, picture_from

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def noise(width: int, height: int) -> Image.Image:
    values = np.random.default_rng(width * 31 + height).integers(0, 256, (height, width, 3))
    return Image.fromarray(values.astype(np.uint8))


def quadrants(mode: str = "RGB") -> Image.Image:
    """Red, green over blue, white: the orientation and every colour can be told."""
    image = Image.new("RGB", (32, 16), WHITE)
    image.paste(RED, (0, 0, 16, 8))
    image.paste(GREEN, (16, 0, 32, 8))
    image.paste(BLUE, (0, 8, 16, 16))
    return image.convert(mode)


def assert_quadrants(picture: Picture, tolerance: int = 0) -> None:
    assert picture.image.mode == "RGB"
    assert picture.image.size == (32, 16)
    for place, colour in {(4, 4): RED, (28, 4): GREEN, (4, 12): BLUE, (28, 12): WHITE}.items():
        found = picture.image.getpixel(place)
        assert np.abs(np.subtract(found, colour)).max() <= tolerance, (place, found)


def saved(directory: Path, image: Image.Image, name: str, **options) -> Path:
    path = directory / name
    image.save(path, **options)
    return path


FILES = ["RGB a.png", "P a.gif", "RGB a.bmp", "RGB a.tga", "RGB a.ppm", "RGB a.webp", "RGB a.avif"]
FILES += ["RGB a.jpg", "CMYK a.jpg", "CMYK a.tif", "YCbCr a.tif"]


@pytest.mark.parametrize("file", FILES)
def test_modes_and_formats_keep_their_colours(tmp_path, file):
    mode, name = file.split()
    options = {"quality": 100, "subsampling": 0} if name == "a.jpg" else {}
    path = saved(tmp_path, quadrants(mode), name, **options)
    assert_quadrants(open_picture(path), 8)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    name = ("a.png", "a.jpg", "a.tif")[orientation % 3]
    path = saved(tmp_path, quadrants(), name, exif=exif)
    with Image.open(path) as image:
        assert open_picture(path) == picture_from(ImageOps.exif_transpose(image))


RAMP = np.arange(256).reshape(1, 256)


@pytest.mark.parametrize(
    "values",
    [
        (RAMP * 257).astype(np.int32),
        (RAMP / 255).astype(np.float32),
        RAMP.astype(np.float32),
        (RAMP * 1e5).astype(np.float32),
        (RAMP * 257).astype(np.uint16),
    ],
)
def test_every_range_of_grey_is_seen_whole(tmp_path, values):
    image = Image.fromarray(values)
    for picture in (picture_from(image), open_picture(saved(tmp_path, image, "a.tif"))):
        np.testing.assert_array_equal(np.asarray(picture.image)[0, :, 1], RAMP[0])


def test_files_say_how_many_bits_are_white_and_which_end(tmp_path):
    dark = np.array([[0, 200]], dtype=np.uint16)
    picture = open_picture(saved(tmp_path, Image.fromarray(dark), "a.png"))
    assert picture.image.getpixel((1, 0)) == (1, 1, 1)
    (tmp_path / "a.pgm").write_bytes(b"P5 2 1 65535\n" + dark.astype(">u2").tobytes())
    assert open_picture(tmp_path / "a.pgm").image.getpixel((1, 0)) == (1, 1, 1)
    path = saved(tmp_path, Image.fromarray(dark * 327), "b.tif")
    content = path.read_bytes()
    tag = struct.pack("<HHIH", 262, 3, 1, 1)  # black is 0
    assert tag in content
    path.write_bytes(content.replace(tag, struct.pack("<HHIH", 262, 3, 1, 0)))
    assert open_picture(path).image.getpixel((0, 0)) == WHITE


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
def test_of_broken_exif_only_the_turn_is_read(tmp_path, name):
    """Tag 256 holds text where a number belongs, so the tags cannot be written again."""
    tags = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2)
    tags += struct.pack("<HHI4s", 256, 2, 4, b"abc\0") + struct.pack("<HHIHH", 274, 3, 1, 6, 0)
    image = quadrants().transpose(Image.Transpose.ROTATE_90)
    options = {"quality": 100, "subsampling": 0} if name == "a.jpg" else {"lossless": True}
    whole = saved(tmp_path, image, name, exif=tags + bytes(4), **options)
    assert_quadrants(open_picture(whole), 8)
    with Image.open(whole) as opened:
        assert_quadrants(picture_from(opened), 8)
    cut = saved(tmp_path, quadrants(), f"b{name}", exif=tags[:20], **options)
    assert_quadrants(open_picture(cut), 8)


def test_pil_images_that_fail_are_refused_in_one_line(tmp_path):
    noise = Image.effect_noise((300, 300), 60).convert("RGB")
    path = saved(tmp_path, noise, "a.jpg")
    cut = Image.open(io.BytesIO(path.read_bytes()[:3000]))
    with Image.open(path) as closed:
        pass
    for image in (cut, closed):
        with pytest.raises(ImageError, match="an image: "):
            picture_from(image)


def test_transparency_lies_over_white(tmp_path):
    clear = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    clear.putpixel((1, 0), (255, 0, 0, 128))
    picture = open_picture(saved(tmp_path, clear, "a.png"))
    assert picture.image.getpixel((0, 0)) == WHITE
    assert np.abs(np.subtract(picture.image.getpixel((1, 0)), (255, 127, 127))).max() <= 1
    for mode in ("LA", "La", "RGBa"):
        image = Image.new(mode.upper(), (1, 1)).convert(mode)
        assert picture_from(image).image.getpixel((0, 0)) == WHITE


@pytest.mark.parametrize("mode", ["P", "L", "RGB", "1"])
def test_a_transparent_colour_is_white(tmp_path, mode):
    image = Image.new("RGB", (2, 1), (0, 0, 0)).convert(mode)
    path = saved(tmp_path, image, "a.png", transparency=image.getpixel((0, 0)))
    assert open_picture(path).image.getpixel((1, 0)) == WHITE


def test_an_animation_is_its_first_frame(tmp_path):
    later = [Image.new("RGB", (32, 16), colour) for colour in (RED, BLUE)]
    for name in ("a.gif", "a.png", "a.webp"):
        options = {"lossless": True} if name == "a.webp" else {}
        path = saved(tmp_path, quadrants(), name, save_all=True, append_images=later, **options)
        assert_quadrants(open_picture(path))


def test_a_picture_is_its_content(tmp_path):
    picture = picture_from(quadrants(), "drawn")
    same = open_picture(saved(tmp_path, quadrants(), "a.png"))
    assert {picture} == {same}
    assert same.name == str(tmp_path / "a.png")
    transposed = Image.frombytes("RGB", (16, 32), quadrants().tobytes())
    assert picture_from(transposed) != picture
    original = quadrants()
    kept = picture_from(original)
    original.paste(RED, (0, 0, 32, 16))
    assert_quadrants(kept)


def refusal(path: Path, opens=open_picture, **options) -> str:
    with pytest.raises(ImageError) as caught:
        opens(path, **options)
    message = str(caught.value)
    assert path.name in message
    assert message.isprintable()
    return message


def test_files_that_are_no_image_are_named(tmp_path):
    for name, content in {
        "empty.png": b"",
        "text.png": b"not an image",
        "program.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert ("not an image" if content else "empty file") in refusal(tmp_path / name)
    assert "No such file" in refusal(tmp_path / "missing.png")
    assert "directory" in refusal(tmp_path)
    refusal(tmp_path / ("long" * 100))
    for path, problem in {
        "": "an image without a name: give a path",
        "~nobody-of-that-name/a.png": "cannot be read",
        "https://example.org/a.png": "nothing is fetched",
        Path("http://example.org/a.png"): "nothing is fetched",
        f"{tmp_path}/a\nb": r"a\\nb",
        "a\0b": "null",
    }.items():
        with pytest.raises(ImageError, match=problem):
            open_picture(path)


def test_a_strip_is_refused_and_a_panorama_is_not(tmp_path):
    path = tmp_path / "strip.png"
    noise(2 * MAX_ASPECT, 2).save(path)
    assert open_picture(path).image.width == 2 * MAX_ASPECT
    noise(2, 2 * MAX_ASPECT + 1).save(path)
    assert f"over {MAX_ASPECT} times the other" in refusal(path)


def test_a_phone_s_picture_opens_where_its_decoder_is_installed(tmp_path, monkeypatch):
    path = tmp_path / "photo.heic"
    pillow_heif.from_pillow(quadrants().resize((64, 32)).resize((32, 16))).save(path, quality=100)
    assert_quadrants(open_picture(path), 80)
    assert decode_picture(path.read_bytes(), "photo.heic").image.size == (32, 16)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    assert 'pip install "mmspec[heic]"' in refusal(path)


def test_paths_pil_images_and_pictures_are_pictures(tmp_path):
    path, image = saved(tmp_path, quadrants(), "a.png"), quadrants()
    for shown in (str(path), path, image, iter([path, image])):
        assert set(pictures_of(shown)) == {picture_from(image)}
    assert pictures_of([]) == ()


def test_a_path_in_place_of_an_image_and_the_other_way_round_are_refused():
    with pytest.raises(ImageError, match="an image given as str: give a PIL image"):
        picture_from("photo.png")
    for open_file in (open_picture, open_clip):
        with pytest.raises(ImageError, match="a path given as Image: give a text or a Path"):
            open_file(Image.new("RGB", (4, 4)))
