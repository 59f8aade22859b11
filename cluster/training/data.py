"""Fashion-MNIST, from the first source available on this machine, and its batches.

The data set has 70,000 grey images of 28 x 28 pixels in 10 classes of clothing, 60,000 for training and
10,000 for testing (Xiao, Rasul and Vollgraf, arXiv 1708.07747).
"""

import gzip
import os
import struct
import zlib
from pathlib import Path

import numpy as np

from cluster.system import files, settings

CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
COUNTS = {"train": 60_000, "test": 10_000}
PREFIX = {"train": "train", "test": "t10k"}  # of the file names, as chosen by the authors
DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist installs them
IMAGES, LABELS = 2051, 2049  # IDX magic numbers: unsigned bytes in 3 dimensions, in 1 dimension


def fashion_mnist(split: str = "train", limit: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the first `limit` examples of a split, all of them by default.

    Returns x, float32 (N, 28, 28, 1) with values in [0, 1], and y, int64 (N,) with values 0 ... 9,
    which `CLASSES` names. The files come from the folder in the variable CLUSTER_DATA; without it from
    Debian's package, from the Keras cache, or by download into that cache, in this order.

    Raises FileNotFoundError, with the folders that were tried, if there are no files. Raises ValueError, with
    the file, if one is damaged, or for a split or a limit that does not exist.
    """
    if split not in COUNTS:
        raise ValueError(f"split={split!r}: Fashion-MNIST has the splits 'train' and 'test'")
    if limit is not None and not 1 <= limit <= COUNTS[split]:
        raise ValueError(f"limit={limit}: the {split} split holds 1 to {COUNTS[split]:,} images")
    folder = _folder(split)
    x = _read_idx(folder / f"{PREFIX[split]}-images-idx3-ubyte.gz", IMAGES, (COUNTS[split], 28, 28))
    y = _read_idx(folder / f"{PREFIX[split]}-labels-idx1-ubyte.gz", LABELS, (COUNTS[split],))
    x = x[:limit, :, :, np.newaxis].astype(np.float32) / np.float32(255)  # (N, 28, 28, 1)
    return x, y[:limit].astype(np.int64)  # (N,)


def batches(indices: np.ndarray, batch: int) -> list[np.ndarray]:
    """Return consecutive slices of `batch` elements of the indices (n,); the last one contains the remainder.

    Shards are equally long, so the last slice is equally short on all ranks. Raises ValueError for batch=0.
    """
    return [indices[i : i + batch] for i in range(0, len(indices), batch)]


def find(split: str) -> Path | None:
    """Return the first folder with both files of a split, or None; nothing is downloaded."""
    return next((folder for folder in _places() if not _missing(folder, split)), None)


def _places() -> list[Path]:
    """Return the folders that may contain the files, in search order."""
    if named := settings.text("CLUSTER_DATA"):
        return [Path(named)]
    keras_home = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()
    return [DEBIAN, keras_home / "datasets" / "fashion-mnist"]


def _missing(folder: Path, split: str) -> list[str]:
    """Return the names of a split's files that are missing in a folder."""
    names = [f"{PREFIX[split]}-images-idx3-ubyte.gz", f"{PREFIX[split]}-labels-idx1-ubyte.gz"]
    return [name for name in names if not (folder / name).is_file()]


def _folder(split: str) -> Path:
    """Return the first folder with both files of a split, after downloading them if there is none."""
    places = _places()
    if found := find(split):
        return found
    if named := settings.text("CLUSTER_DATA"):
        raise FileNotFoundError(
            f"CLUSTER_DATA names {named}, which does not contain {' and '.join(_missing(places[0], split))}. "
            "Correct the variable, or unset it to search the usual places."
        )
    cache = places[-1]
    try:
        _download(cache, split)
    except Exception as error:  # Keras raises a bare Exception for every failure of the network
        raise FileNotFoundError(
            f"Fashion-MNIST is not on this machine. Tried {places[0]} (Debian's package), {places[1]} "
            f"(the Keras cache) and a download ({error}). Either run `apt install dataset-fashion-mnist`, "
            "or on a machine with a network `python -c 'import keras; "
            "keras.datasets.fashion_mnist.load_data()'`, which fills the cache, or set CLUSTER_DATA to a "
            "folder with the four .gz files."
        ) from error
    return cache


def _download(cache: Path, split: str) -> None:
    """Fill the Keras cache once, even if several ranks of one machine request it at the same time."""
    cache.mkdir(parents=True, exist_ok=True)
    with files.lock(cache / ".lock"):  # the other ranks wait here, and then find the files
        if _missing(cache, split):
            import keras

            keras.datasets.fashion_mnist.load_data()


def _read_idx(path: Path, magic: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return the bytes of one IDX file, after verifying that it contains uint8 of `shape`."""
    remedy = "Delete it and run this again, or install Debian's package dataset-fashion-mnist."
    try:
        with gzip.open(path) as file:
            raw = file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}). {remedy}") from error
    header = struct.Struct(f">{1 + len(shape)}i")  # magic number, then each dimension, big-endian
    found = header.unpack_from(raw) if len(raw) >= header.size else ()
    if found != (magic, *shape) or len(raw) != header.size + np.prod(shape):
        raise ValueError(
            f"{path} has unexpected contents: its header reads {found} with {len(raw):,} bytes, where "
            f"{(magic, *shape)} with {header.size + np.prod(shape):,} bytes were expected. {remedy}"
        )
    return np.frombuffer(raw, np.uint8, offset=header.size).reshape(shape)
