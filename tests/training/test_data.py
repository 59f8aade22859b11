"""Fashion-MNIST on this machine, damaged and missing files, and shards."""

import gzip
import math
import shutil

import numpy as np
import pytest

from cluster.training import data
from cluster.training.shards import shard


@pytest.fixture(scope="module")
def test_split():
    return data.fashion_mnist("test")


def test_the_test_split_is_fashion_mnist(test_split):
    """Is the test split the real one, with 10,000 images, 1,000 of each class, the first one an ankle
    boot?"""
    x, y = test_split
    assert x.shape == (10_000, 28, 28, 1) and x.dtype == np.float32
    assert x.min() == 0.0 and x.max() == 1.0
    assert y.dtype == np.int64 and np.bincount(y).tolist() == [1_000] * 10
    assert data.CLASSES[y[0]] == "Ankle boot"


def test_limit_takes_the_first(test_split):
    """Does a limit return the first images and their labels?"""
    x, y = data.fashion_mnist("test", 5)
    assert np.array_equal(x, test_split[0][:5]) and np.array_equal(y, test_split[1][:5])


@pytest.mark.parametrize("wrong", [{"split": "valid"}, {"limit": 0}, {"limit": 60_001}])
def test_what_is_not_there_is_named(wrong):
    """Does the error for an invalid split or limit contain its value?"""
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        data.fashion_mnist(**wrong)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the test split in a folder named by CLUSTER_DATA."""
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        shutil.copy(data._folder("test") / name, tmp_path)
    monkeypatch.setenv("CLUSTER_DATA", str(tmp_path))
    return tmp_path


def test_a_folder_can_be_named(folder):
    """If CLUSTER_DATA names a folder, are files read from there, and from nowhere else?"""
    labels = folder / "t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(bytes([0, 0, 8, 1, 0, 0, 39, 16]) + bytes(10_000)))
    assert not data.fashion_mnist("test")[1].any()  # the labels in that folder are all 0
    with pytest.raises(FileNotFoundError, match=r"CLUSTER_DATA .*train-images"):
        data.fashion_mnist("train")


def without_an_image(images):
    return gzip.compress(gzip.decompress(images)[:-784], 1)


@pytest.mark.parametrize(
    "spoil, shown",
    [
        (lambda images: images[:100_000], "EOF|damaged"),
        (without_an_image, "7,839,232 .*7,840,016"),
        (lambda images: gzip.compress(bytes([0, 0, 8, 1, 0, 0, 39, 16]) + bytes(10_000)), "2049.*2051"),
    ],
    ids=["truncated", "an image is missing", "labels"],
)
def test_a_damaged_file_is_reported(folder, spoil, shown):
    """Is a damaged file reported by its name, what was found and a solution?"""
    path = folder / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError, match=f"t10k-images.*({shown}).*Delete"):
        data.fashion_mnist("test")


def test_the_error_names_all_places_that_were_tried(tmp_path, monkeypatch):
    """Without files and without a network, does the error name all folders that were searched, and all ways
    to provide the files?
    """

    def no_network(*_):
        raise OSError("no network")

    monkeypatch.delenv("CLUSTER_DATA", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setattr(data, "DEBIAN", tmp_path / "nothing")
    monkeypatch.setattr(data, "_download", no_network)
    with pytest.raises(FileNotFoundError) as error:
        data.fashion_mnist()
    for phrase in (
        str(tmp_path / "nothing"),
        str(tmp_path / "keras"),
        "no network",
        "CLUSTER_DATA",
        "apt install",
    ):
        assert phrase in str(error.value)


@pytest.mark.parametrize("n, size", [(10, 2), (11, 2), (60_000, 7), (5, 5), (1_003, 4)])
def test_shards_are_disjoint_equal_and_cover(n, size):
    """Does every rank get n // size images? Is each image used at most once, with fewer than `size` left
    out?"""
    shards = [shard(n, rank, size, epoch=3, seed=1) for rank in range(size)]
    assert {len(s) for s in shards} == {n // size}
    seen = np.concatenate(shards)
    assert len(np.unique(seen)) == len(seen) == n - n % size
    assert seen.min() >= 0 and seen.max() < n


def test_the_remainder_changes_from_epoch_to_epoch():
    """Does the image that is left out change between epochs, so that each of 11 images is left out within 40
    epochs?"""
    left_out = [set(range(11)) - {int(i) for r in (0, 1) for i in shard(11, r, 2, e)} for e in range(40)]
    assert all(len(left) == 1 for left in left_out)
    assert set().union(*left_out) == set(range(11))


def test_the_ranks_together_see_the_batches_of_one_process():
    """At each step, do the ranks' batches together equal the batch of a single process?"""
    n, batch = 1_003, 32
    batches = data.batches(shard(n, 0, 1, epoch=2, seed=5)[: n - n % 4], 4 * batch)
    four = [data.batches(shard(n, rank, 4, epoch=2, seed=5), batch) for rank in range(4)]
    assert [len(b) for b in four] == [len(batches)] * 4 == [math.ceil(250 / batch)] * 4
    for step, whole in enumerate(batches):
        assert sorted(np.concatenate([b[step] for b in four])) == sorted(whole)


def test_shuffles_can_be_repeated_and_differ():
    """Does the order depend on the seed and on the epoch, and on nothing else?"""
    order = [shard(1_000, 0, 1, epoch, seed).tolist() for epoch, seed in [(0, 0), (0, 0), (1, 0), (0, 1)]]
    assert order[0] == order[1]
    assert order[0] != order[2] and order[0] != order[3] and order[2] != order[3]


@pytest.mark.parametrize("n, rank, size", [(10, 2, 2), (10, -1, 2), (3, 0, 4)])
def test_a_shard_that_cannot_be_is_refused(n, rank, size):
    """Are a rank beyond the number of ranks, and more ranks than images, refused with their values?"""
    with pytest.raises(ValueError, match=f"{n if n < size else rank}.*{size}"):
        shard(n, rank, size)
