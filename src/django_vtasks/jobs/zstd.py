"""The zstd frame of large payloads, from whichever provider this Python has; loaded at the first large payload."""

from functools import cache
from types import ModuleType

from .errors import CodecError

MAX_DECOMPRESSED = 256 * 1024 * 1024
"""Bytes a compressed payload may grow to; a larger one is refused, so that no payload exhausts a worker's memory."""

LEVEL = 3


@cache
def _provider() -> ModuleType:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise CodecError(
                "a payload is compressed with zstd, which needs Python 3.14 or the package backports.zstd: "
                "pip install 'django-vtasks[valkey]'"
            ) from None
    return zstd  # type: ignore[no-any-return,unused-ignore]


def compress(data: bytes) -> bytes:
    """One zstd frame. Raises CodecError when no zstd provider is installed."""
    return _provider().compress(data, level=LEVEL)  # type: ignore[no-any-return]


def available() -> bool:
    """Whether payloads can be compressed and decompressed here."""
    try:
        _provider()
    except CodecError:
        return False
    return True


def decompress(frame: bytes) -> bytes:
    """The bytes of one zstd frame. Raises CodecError for a broken frame or one above `MAX_DECOMPRESSED` bytes."""
    zstd = _provider()
    decompressor = zstd.ZstdDecompressor()
    try:
        data: bytes = decompressor.decompress(frame, max_length=MAX_DECOMPRESSED + 1)
    except (zstd.ZstdError, EOFError) as error:
        raise CodecError(f"broken zstd frame: {error}") from error
    if len(data) > MAX_DECOMPRESSED:
        raise CodecError(f"the payload decompresses to more than {MAX_DECOMPRESSED} bytes")
    if not decompressor.eof:
        raise CodecError("broken zstd frame: it ends too early")
    return data
