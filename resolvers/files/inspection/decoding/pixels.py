"""Pixels of an image as they are displayed: upright, in sRGB, with 8 bits per channel."""

from __future__ import annotations

import contextlib
import io

from PIL import Image, ImageCms

_ORIENTATION_TAG = 0x0112
_TRANSPOSITIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Operations that display an image upright, by its orientation (EXIF 2.32, table 6)."""

_KEPT_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
_WITH_ALPHA = frozenset({"LA", "PA", "La", "RGBa", "RGBA"})


def clean(image: Image.Image) -> Image.Image:
    """Return a new image with the displayed pixels of the current frame, and no metadata."""
    image.load()
    orientation, profile = _find_orientation(image), image.info.get("icc_profile")
    cleaned = _reduce_depth(image)
    if isinstance(profile, bytes):
        with contextlib.suppress(ImageCms.PyCMSError, OSError, ValueError, TypeError):
            cleaned = _to_srgb(cleaned, profile)
    if orientation in _TRANSPOSITIONS:
        cleaned = cleaned.transpose(_TRANSPOSITIONS[orientation])
    if cleaned is image:
        cleaned = image.copy()
    transparency = cleaned.info.get("transparency") if cleaned.mode == "P" else None
    cleaned.info = {} if transparency is None else {"transparency": transparency}
    return cleaned


def resize(image: Image.Image, width: int, height: int) -> Image.Image:
    """Return an image of this size, in colours instead of a palette."""
    if image.mode in {"1", "P"}:
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    return image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=2.0)


def _find_orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:
        # Broken metadata is dropped like all other: the pixels count.
        return 1


def _reduce_depth(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        return image.point(lambda value: value / 256).convert("L")
    if image.mode in {"I", "F"}:
        return image.convert("L")
    if image.mode in {"1", "L", "RGB"} and "transparency" in image.info:
        return image.convert("RGBA")
    if image.mode in _KEPT_MODES:
        return image
    if image.mode in _WITH_ALPHA:
        return image.convert("RGBA")
    # A profile of CMYK is needed for its conversion.
    return image if image.mode == "CMYK" else image.convert("RGB")


def _to_srgb(image: Image.Image, icc_profile: bytes) -> Image.Image:
    profile = ImageCms.ImageCmsProfile(io.BytesIO(icc_profile))
    if "sRGB" in ImageCms.getProfileDescription(profile):
        return image
    if image.mode in {"1", "P"}:
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    colours = image.convert(image.mode.removesuffix("A")) if image.mode in _WITH_ALPHA else image
    converted = ImageCms.profileToProfile(colours, profile, ImageCms.createProfile("sRGB"), outputMode="RGB")
    if converted is None:
        return image
    if colours.mode == "L":
        converted = converted.convert("L")
    if image.mode in _WITH_ALPHA:
        converted.putalpha(image.getchannel("A"))
    return converted
