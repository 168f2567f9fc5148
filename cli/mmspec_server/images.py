"""Decodes the images of a request, within limits that are checked first."""

import base64
import binascii
import re
from dataclasses import dataclass
from io import BytesIO

from PIL import Image

from mmspec.errors import ImageError
from mmspec.prompt.images import Picture, decode_picture
from mmspec_server.errors import ApiError
from mmspec_server.settings import Settings

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")

_DATA_URL = re.compile(r"data:image/[\w.+-]{1,40};base64,", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ImageReader:
    """Opens the pictures that a request names; raises ApiError for those that are refused."""

    settings: Settings

    def picture(self, url: str, param: str) -> Picture:
        """The picture at `url`; param: the field of the request, named in errors."""
        scheme = _DATA_URL.match(url)
        if not scheme:
            raise refusal(param, "give a data: URL with an image in base64, such as data:image/png")
        return self._decoded(_bytes(url[scheme.end() :], param), param)

    def _decoded(self, content: bytes, param: str) -> Picture:
        self._check_pixels(content, param)
        try:
            return decode_picture(content, param)
        except ImageError as error:
            raise ApiError(400, str(error), param, "invalid_image") from error

    def _check_pixels(self, content: bytes, param: str) -> None:
        """Refuse by an image's header what would take too much memory to decode."""
        try:
            with Image.open(BytesIO(content), formats=FORMATS) as image:
                width, height = image.size
        except Exception as error:  # damaged data makes decoders raise anything
            raise refusal(param, f"not an image in {', '.join(FORMATS)}") from error
        if width * height > self.settings.pixels:
            limit = self.settings.pixels / 1e6
            raise refusal(param, f"{width} × {height} pixels, over the limit of {limit:g} million")  # noqa: RUF001


def refusal(param: str, reason: str) -> ApiError:
    """The error for an image that is not used."""
    return ApiError(400, f"{param}: {reason}", param, "invalid_image")


def _bytes(text: str, param: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise refusal(param, "the data after base64, is not base64") from error
