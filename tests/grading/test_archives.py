"""Archives that cannot be read are told as such, with the member's name; they harm no other submission."""

import io
import random
import zipfile

import pytest

from cluster.staff import limited
from cluster.staff.course import SubmissionError
from cluster.staff.submissions import safe_zip

METHODS = {
    "stored": zipfile.ZIP_STORED,
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}
FILES = {"one.ipynb": b"hello, world " * 40, "data/two.csv": bytes(range(256)) * 3}


def packed(method, files=FILES):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return bytearray(buffer.getvalue())


def declared(method=None, flag=0):
    """Return an archive whose member `one.ipynb` is said to be packed by another method, or encrypted."""
    data = packed(zipfile.ZIP_DEFLATED, {"one.ipynb": b"hello " * 40})
    for start, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = data.index(start) + at
        data[place] |= flag
        if method is not None:
            data[place + 2 : place + 4] = method.to_bytes(2, "little")
    return data


def in_the_middle(method):
    """Return an archive whose member `one.ipynb` is damaged."""
    data = packed(method, {"one.ipynb": random.Random(1).randbytes(400)})
    data[150:170] = bytes(20)
    return data


BAD = {
    **{f"damaged {name}": in_the_middle(method) for name, method in METHODS.items()},
    "deflate64": declared(9), "zstd": declared(93), "aes": declared(99), "unknown": declared(7777),
    "encrypted": declared(flag=1), "strong encryption": declared(flag=0x41), "patched": declared(flag=0x20),
    "another method": declared(zipfile.ZIP_BZIP2), "another method, too": declared(zipfile.ZIP_LZMA),
}  # fmt: skip


@pytest.mark.parametrize("nested", [False, True], ids=["whole", "in an archive"])
@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_an_unreadable_member_is_named(tmp_path, data, nested):
    """Is each archive that cannot be read told as a fault of the submission, with the name of its member?"""
    if nested:
        data = packed(zipfile.ZIP_STORED, {"own.zip": bytes(data)})
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(SubmissionError, match=r"one\.ipynb"):
        safe_zip.unpack(tmp_path / "a.zip", tmp_path / "out", largest=10**6, most=9, nested=nested)


def damaged(dice, method):
    """Return an archive with some bytes changed, cut or moved."""
    data = packed(method)
    for _ in range(dice.choice((1, 1, 2, 8, 40))):
        place = dice.randrange(len(data))
        what = dice.randrange(4)
        if what < 2:
            data[place] = dice.randrange(256)
        elif what == 2:
            data[place : place + dice.randrange(30)] = b""
        else:
            data[place:place] = dice.randbytes(dice.randrange(20))
    return data


@pytest.mark.parametrize("nested", [False, True], ids=["whole", "in an archive"])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_any_damage_is_the_archives(tmp_path, method, nested):
    """Is an archive with any damage either unpacked or told as a fault of the submission?"""
    dice, told = random.Random(f"{method} {nested}"), 0
    for number in range(150):
        data = damaged(dice, method)
        if nested:
            data = packed(zipfile.ZIP_STORED, {"own.zip": bytes(data)})
        path = tmp_path / f"{number}.zip"
        path.write_bytes(data)
        try:
            safe_zip.extract(path, tmp_path / str(number), None, 10**6, 99, nested)
        except SubmissionError:
            told += 1
    assert told > 50


def test_only_the_machines_errors_are_the_machines():
    """Is an OSError without a number, as decompressors and parsers raise it, a fault of the submission?"""
    with pytest.raises(SubmissionError, match="stream"):
        limited.call(decompressors_error)
    with pytest.raises(OSError, match="space"):
        limited.call(full_disk)


def decompressors_error():
    raise OSError("Invalid data stream")


def full_disk():
    raise OSError(28, "No space left on device")
