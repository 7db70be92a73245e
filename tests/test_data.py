"""The images: the embedded ones, the fetched ones, and the messages for damaged or missing files."""

import functools
import gzip
import hashlib
import http.server
import struct
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import labkit
from labkit.base.errors import LabError
from labkit.networks import images as data
from labkit.networks.images import cycle

pytestmark = pytest.mark.thorough("breadth of the lab: the notebooks run the main paths")


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def some_images(n=5, h=6, w=9, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (n, h, w), np.uint8), random.integers(0, 10, n, np.uint8)


def write_pair(folder, images, labels):
    """Write images and labels as two files of MNIST's form."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        (folder / f"t10k-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(array)))


# ------------------------------------------------------------------------------------------- digits
def test_digits_are_all_there():
    train, test = labkit.dataset("digits", "train"), labkit.dataset("digits", "test")
    assert train.images.shape == (1437, 1, 8, 8) and len(test) == 360
    assert train.images.dtype == np.float32 and train.labels.dtype == np.int64
    assert labkit.dataset(size=86).images.shape == (360, 1, 86, 86)
    assert (train.images.min(), train.images.max()) == (0, 1)
    assert np.bincount(np.concatenate([train.labels, test.labels])).tolist() == [
        178,
        182,
        177,
        183,
        181,
        182,
        181,
        179,
        174,
        180,
    ]  # (UCI's own count of optdigits.tes)
    assert (np.bincount(test.labels) >= 30).all()
    assert "CC BY 4.0" in train.licence
    assert "360 images of 8x8" in repr(test)


def test_the_readme_names_every_file():
    readme = (data.data_dir() / "README.md").read_text()
    for path in data.data_dir().rglob("*"):
        name = path.relative_to(data.data_dir())
        if path.is_file() and path.suffix in (".gz", ".npz", ".csv"):
            assert f"`{name.as_posix()}`" in readme or f"`{name.parent.as_posix()}/`" in readme, (
                name
            )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cifar",), "no data set 'cifar'; there are digits, fashion-mnist, mnist"),
        (("digits", "validation"), "no split 'validation'"),
        (("digits", "test", 0), "not 0"),
        (("digits", "test", 8.5), r"not 8\.5"),
        (("digits", "test", (8, 8, 8)), "not"),
        (("digits", "test", "86"), "'86'"),
    ],
)
def test_what_does_not_exist_is_refused(arguments, message):
    with pytest.raises(LabError, match=message):
        labkit.dataset(*arguments)


# ------------------------------------------------------------------------------------------- resize
def bilinear(image, H, W):
    """Resize down, then across: pixel centres lie on pixel centres, the edge repeats."""
    for axis, new in enumerate((H, W)):
        old = image.shape[axis]
        at = (np.arange(new) + 0.5) * old / new - 0.5
        image = np.apply_along_axis(
            lambda line, at=at: np.interp(at, np.arange(len(line)), line), axis, image
        )
    return image


@pytest.mark.parametrize("size", [(13, 31), (6, 9), (17, 9), (3, 4), (1, 1)])
def test_resize_is_bilinear(size, monkeypatch):
    monkeypatch.setattr(data, "CHUNK", 2)
    images, _ = some_images(n=3)
    ours = data.resize(images, size)
    assert ours.shape == (3, 1, *size)
    assert ours.dtype == np.float32
    for resized, image in zip(ours, images, strict=True):
        np.testing.assert_allclose(resized[0], bilinear(image / 255, *size), rtol=0, atol=1e-6)


# -------------------------------------------------------------------------------------------- cycle
def test_cycle():
    test = labkit.dataset()
    assert (cycle(test, 100).images == test.images[:100]).all()
    many = cycle(test, 1000)
    assert repr(many) == "digits (test): 1000 images of 8x8"
    assert (many.images[720:1000] == test.images[:280]).all()
    assert (many.labels[360:720] == test.labels).all()
    with pytest.raises(LabError, match="at least one image, not 0"):
        cycle(test, 0)


# ---------------------------------------------------------------------------------- LABKIT_DATA_DIR
@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA_DIR", str(tmp_path))
    return tmp_path


def test_only_the_published_files_are_used(data_folder, monkeypatch):
    with pytest.raises(LabError, match=r"has no t10k-images-idx3-ubyte\.gz\. Put it there"):
        labkit.dataset("mnist")
    images, labels = some_images()
    write_pair(data_folder, images, labels)
    publish(monkeypatch, "mnist", data_folder)
    mnist = labkit.dataset("mnist", size=(12, 18))
    assert mnist.images.shape == (5, 1, 12, 18) and (mnist.labels == labels).all()
    with pytest.raises(
        LabError, match=r"is not the published file of fashion-mnist.*keep each in a subfolder"
    ):
        labkit.dataset("fashion-mnist")
    write_pair(data_folder / "fashion-mnist", *some_images(seed=1))
    publish(monkeypatch, "fashion-mnist", data_folder / "fashion-mnist")
    assert (labkit.dataset("fashion-mnist").labels == some_images(seed=1)[1]).all()


def publish(monkeypatch, name, folder, mirrors=()):
    """Have the files in `folder` count as the published test images of a data set."""
    files = tuple(
        (file, hashlib.md5((folder / file).read_bytes()).hexdigest())
        for file, _ in data._SETS[name].files["test"]
    )
    monkeypatch.setitem(
        data._SETS, name, replace(data._SETS[name], files={"test": files}, mirrors=mirrors)
    )


# -------------------------------------------------------------------------------------------- fetch
@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Return a server of files on this machine, with the requests that it got."""
    images, labels = some_images()
    write_pair(tmp_path / "published", images, labels)
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        """A server of files that notes what it is asked for."""

        def do_GET(self):
            requests.append(self.path)
            super().do_GET()

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=tmp_path / "published")
    )
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    publish(monkeypatch, "fashion-mnist", tmp_path / "published", (url,))
    monkeypatch.delenv("LABKIT_DATA_DIR", raising=False)
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield SimpleNamespace(
        url=url,
        requests=requests,
        labels=labels,
        published=tmp_path / "published",
        kept=tmp_path / "cache" / "data" / "fashion-mnist",
    )
    server.shutdown()
    server.server_close()


def test_a_file_is_fetched_once_from_the_first_mirror_that_has_it_and_again_if_it_is_damaged(
    mirror, monkeypatch
):
    source = data._SETS["fashion-mnist"]
    mirrors = ("http://127.0.0.1:9/", mirror.url + "gone/", mirror.url)
    monkeypatch.setitem(data._SETS, "fashion-mnist", replace(source, mirrors=mirrors))
    for _ in range(2):
        assert (labkit.dataset("fashion-mnist").labels == mirror.labels).all()
        assert len(mirror.requests) == 4  # two per file: the second mirror has neither
    path = mirror.kept / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:40])
    assert (labkit.dataset("fashion-mnist").labels == mirror.labels).all()
    assert len(mirror.requests) == 6 and len(list(mirror.kept.iterdir())) == 2


@pytest.mark.parametrize("fault", ["wrong content", "not found"])
def test_a_bad_mirror_leaves_nothing_behind(mirror, fault):
    for path in mirror.published.iterdir():
        if fault == "wrong content":
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        else:
            path.unlink()
    with pytest.raises(LabError, match="cannot fetch fashion-mnist") as caught:
        labkit.dataset("fashion-mnist")
    for part in (
        mirror.url,
        "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz",
        str(mirror.kept),
        "LABKIT_DATA_DIR",
    ):
        assert part in str(caught.value)
    assert not list(mirror.kept.iterdir())


def test_a_cache_that_cannot_be_written(mirror, monkeypatch):
    monkeypatch.setenv("LABKIT_CACHE_DIR", __file__)
    with pytest.raises(LabError, match=r"cannot be written .*set LABKIT_CACHE_DIR"):
        labkit.dataset("fashion-mnist")
    assert not mirror.requests
