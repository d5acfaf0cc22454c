"""CIFAR-10 in every form it is handed out in: the same images from each, and no file is trusted."""

import errno
import gzip
import io
import os
import pickle
import sys
import tarfile
import types
from pathlib import Path

import numpy as np
import pytest

from headcount.errors import InvalidInput
from headcount.tasks.cifar10 import CLASSES, HOME, Cifar10, load_cifar10

RANDOM = np.random.default_rng(0)
SIZE = 3
PYTHON = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
BINARY = [f"{name}.bin" for name in PYTHON]
PIXELS = [RANDOM.integers(256, size=(size, 3072), dtype=np.uint8) for size in 6 * (SIZE,)]
LABELS = [RANDOM.integers(10, size=len(pixels)).tolist() for pixels in PIXELS]


def images(pixels):
    """Pixel by pixel, as the home page tells it: 1,024 red values, then green, then blue, row by row."""
    made = np.empty((len(pixels), 32, 32, 3), np.uint8)
    for image, row, column, colour in np.ndindex(made.shape):
        made[image, row, column, colour] = pixels[image, 1024 * colour + 32 * row + column]
    return made


TRAIN_IMAGES, TEST_IMAGES = images(np.concatenate(PIXELS[:5])), images(PIXELS[5])
TRAIN_LABELS, TEST_LABELS = [label for labels in LABELS[:5] for label in labels], LABELS[5]


def python3_batch(pixels, labels, protocol=2):
    batch = {b"batch_label": b"a batch", b"labels": labels, b"data": pixels, b"filenames": [b"a.png"]}
    return pickle.dumps(batch, protocol=protocol)


def numpy1_batch(pixels, labels):
    return python3_batch(pixels, labels).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def python2_batch(pixels, labels):
    """The opcodes as Python 2 wrote them: text is bytes, and truth values are numbers."""

    def text(content):
        return b"T" + len(content).to_bytes(4, "little") + content

    kind = (
        b"cnumpy\ndtype\n" + text(b"u1") + b"K\0K\1\x87R(K\3" + text(b"|") + b"NNN" + 2 * b"J\xff\xff\xff\xff"
    )
    shape = b"".join(b"M" + size.to_bytes(2, "little") for size in pixels.shape) + b"\x86"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" + text(b"b") + b"\x87R"
    array = empty + b"(K\1" + shape + kind + b"K\0tb\x89" + text(pixels.tobytes()) + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\2}(" + text(b"labels") + listed + text(b"data") + array + b"u."


def binary_batch(pixels, labels):
    return np.concatenate([np.array(labels, np.uint8)[:, None], pixels], axis=1).tobytes()


def batches(names, write):
    return {name: write(pixels, labels) for name, pixels, labels in zip(names, PIXELS, LABELS, strict=True)}


def write_folder(folder, contents):
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def write_archive(path, contents):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {"batches.meta": b"other", **contents}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_part(path, train, test):
    """Images at the given places of the two splits: R - G, G, B - G, then differences, modulo 256."""
    arrays = {}
    for split, places, stack, labels in (
        ("train", train, TRAIN_IMAGES, TRAIN_LABELS),
        ("test", test, TEST_IMAGES, TEST_LABELS),
    ):
        red, green, blue = np.moveaxis(stack[places], -1, 0)
        planes = np.stack([red - green, green, blue - green])
        planes[..., 1:] = planes[..., 1:] - planes[..., :-1]
        planes[..., 1:, :] = planes[..., 1:, :] - planes[..., :-1, :]
        arrays[f"r_{split}"] = planes
        arrays[f"y_{split}"] = np.array(labels, np.uint8)[places]
        arrays[f"i_{split}"] = np.array(places, np.uint16)
    np.savez_compressed(path, **arrays)
    return path


def python_folder(tmp_path, write=python3_batch):
    return write_folder(tmp_path / "cifar-10-batches-py", batches(PYTHON, write))


def binary_folder(tmp_path):
    return write_folder(tmp_path / "cifar-10-batches-bin", batches(BINARY, binary_batch))


def python_archive(tmp_path, name="cifar-10-python.tar.gz", start=""):
    contents = batches(PYTHON, python2_batch)
    named = {f"{start}cifar-10-batches-py/{key}": contents[key] for key in contents}
    return write_archive(tmp_path / name, named)


def binary_archive(tmp_path, name="cifar-10-binary.tar.gz"):
    contents = batches(BINARY, binary_batch)
    return write_archive(tmp_path / name, {f"cifar-10-batches-bin/{key}": contents[key] for key in contents})


def unpacked(path):
    plain = path.with_suffix("")
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    path.unlink()
    return plain


def parts(tmp_path):
    for number in range(3):
        train, test = list(range(number, 15, 3)), list(range(number, SIZE, 3))
        write_part(tmp_path / f"cifar10_part{number}.npz", train, test)
    return tmp_path


LAYOUTS = {
    "python 3": python_folder,
    "python 3 with numpy 1": lambda tmp_path: python_folder(tmp_path, numpy1_batch),
    "python 2": lambda tmp_path: python_folder(tmp_path, python2_batch),
    "protocol 4": lambda tmp_path: python_folder(tmp_path, lambda *batch: python3_batch(*batch, protocol=4)),
    "column by column": lambda tmp_path: python_folder(
        tmp_path, lambda pixels, labels: python3_batch(np.asfortranarray(pixels), labels)
    ),
    "binary": binary_folder,
    "parent of python": lambda tmp_path: python_folder(tmp_path).parent,
    "parent of binary": lambda tmp_path: binary_folder(tmp_path).parent,
    "python archive": python_archive,
    "binary archive": binary_archive,
    "archive by another name": lambda tmp_path: binary_archive(tmp_path, "mine.tgz"),
    "archive that is not packed": lambda tmp_path: unpacked(binary_archive(tmp_path)),
    "folder of an archive that is not packed": lambda tmp_path: unpacked(python_archive(tmp_path)).parent,
    "archive of the folder's content": lambda tmp_path: python_archive(tmp_path, start="./"),
    "folder of python archive": lambda tmp_path: python_archive(tmp_path).parent,
    "folder of binary archive": lambda tmp_path: binary_archive(tmp_path).parent,
    "parts": parts,
    "as text": lambda tmp_path: str(binary_folder(tmp_path)),
}


def assert_is_all_of_it(data: Cifar10) -> None:
    np.testing.assert_array_equal(data.train_images, TRAIN_IMAGES)
    np.testing.assert_array_equal(data.train_labels, TRAIN_LABELS)
    np.testing.assert_array_equal(data.test_images, TEST_IMAGES)
    np.testing.assert_array_equal(data.test_labels, TEST_LABELS)
    assert data.train_images.dtype == data.test_images.dtype == np.uint8
    assert data.train_labels.dtype == data.test_labels.dtype == np.int32


def refusal(path) -> str:
    """The one line, which says where the data is to be had."""
    with pytest.raises(InvalidInput) as caught:
        load_cifar10(path)
    line = str(caught.value)
    assert "\n" not in line
    assert HOME in line
    return line


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_images(layout, tmp_path):
    before = LAYOUTS[layout](tmp_path)
    there = sorted(tmp_path.rglob("*"))
    assert_is_all_of_it(load_cifar10(before))
    assert sorted(tmp_path.rglob("*")) == there, "nothing is unpacked"


def test_there_are_ten_classes():
    assert (len(CLASSES), CLASSES[0], CLASSES[9]) == (10, "airplane", "truck")


def test_of_the_parts_those_that_are_there_are_read_in_the_original_order(tmp_path):
    write_part(tmp_path / "cifar10_part0.npz", [9, 2, 5], [2, 0])
    data = load_cifar10(tmp_path)
    np.testing.assert_array_equal(data.train_images, TRAIN_IMAGES[[2, 5, 9]])
    np.testing.assert_array_equal(data.train_labels, np.array(TRAIN_LABELS)[[2, 5, 9]])
    np.testing.assert_array_equal(data.test_images, TEST_IMAGES[[0, 2]])


class Command:
    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


def with_command(*parts):
    return lambda pixels, labels: pickle.dumps(
        {b"data": pixels, b"labels": labels, b"more": Command(*parts)}, protocol=2
    )


def test_a_pickle_with_a_command_is_refused_and_the_command_is_not_run(tmp_path):
    folder = python_folder(tmp_path)
    written = tmp_path / "written"
    content = with_command(os.system, f'echo run > "{written}"')(PIXELS[2], LABELS[2])
    pickle.loads(content)
    assert written.exists(), "the command works, if one lets it"
    written.unlink()
    (folder / "data_batch_3").write_bytes(content)
    line = refusal(folder)
    assert not written.exists()
    assert str(folder / "data_batch_3") in line
    assert f"it names 'system' of '{os.system.__module__}'; nothing of it was run" in line


def test_a_command_in_an_archive_is_refused_too(tmp_path):
    written = tmp_path / "written"
    contents = batches(PYTHON, with_command(os.system, f'echo run > "{written}"'))
    named = {f"cifar-10-batches-py/{name}": content for name, content in contents.items()}
    path = write_archive(tmp_path / "cifar-10-python.tar.gz", named)
    assert f"{path}/cifar-10-batches-py/data_batch_1: is damaged, or no pickled batch: it names" in refusal(
        path
    )
    assert not written.exists()


NAMES = "c_codecs\nencode\n cnumpy\nndarray\n cnumpy\ndtype\n cnumpy.core.multiarray\n_reconstruct\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"c__builtin__\neval\n(S'1'\ntR.", "it names 'eval' of '__builtin__'"),
        (b"cbuiltins\ngetattr\n.", "it names 'getattr' of 'builtins'"),
        (b"cnumpy\nload\n.", "it names 'load' of 'numpy'"),
        (b"cnumpy.core.multiarray\nscalar\n.", "it names 'scalar' of 'numpy.core.multiarray'"),
        (b"cnumpy\nndarray\n(K\1tR.", "it makes an array in a way of its own"),
        (b"\x80\2cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"c_codecs\nencode\n(X\1\0\0\0aX\5\0\0\0rot13tR.", "text in 'rot13'; expected 'latin1'"),
        (pickle.dumps(np.array([print], object), 2), "an array of type 'O8'; expected 'u1'"),
        (pickle.dumps(np.zeros(3, "i1,f8"), 2), "an array of type 'V9'"),
        (pickle.dumps(np.float32(1), 2), "it names 'scalar' of 'numpy._core.multiarray'"),
        (b"\x80\2P1\n.", "persistent"),
        *((name.encode() + b"}b.", "it changes a function") for name in NAMES.split(" ")),
        *((name.encode() + b"N}S'__call__'\nNs\x86b.", "it changes a function") for name in NAMES.split(" ")),
    ],
)
def test_what_an_array_needs_cannot_be_turned_to_another_use(content, words, tmp_path):
    folder = python_folder(tmp_path)
    (folder / "data_batch_1").write_bytes(content)
    assert words in refusal(folder)
    (folder / "data_batch_1").write_bytes(python3_batch(PIXELS[0], LABELS[0]))
    assert_is_all_of_it(load_cifar10(folder))


GOOD = python3_batch(PIXELS[1], LABELS[1])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GOOD[:-1], "is damaged, or no pickled batch"),
        (GOOD[:100], "is damaged, or no pickled batch"),
        (b"", "is damaged, or no pickled batch"),
        (b"<html>404</html>", "is damaged, or no pickled batch"),
        (pickle.dumps([1], 2), "holds list; expected a dictionary with b'data' and b'labels'"),
        (pickle.dumps({b"data": 1, b"fine_labels": []}, 2), "holds [b'data', b'fine_labels']; expected"),
        (python3_batch([1], [1]), "b'data' has the shape None; expected an array of shape (n, 3072)"),
        (python3_batch(PIXELS[0][:, :3000], LABELS[0]), "b'data' has the shape (3, 3000); expected"),
        (python3_batch(PIXELS[0].astype(float), LABELS[0]), "an array of type 'f8'; expected 'u1'"),
        (python3_batch(PIXELS[0], tuple(LABELS[0])), "b'labels' is ("),
        (python3_batch(PIXELS[0], LABELS[0][:2]), "holds 3 images and 2 labels; expected as many"),
        (python3_batch(PIXELS[0], [0, 10, 0]), "image 1 has the label 10; expected 0 to 9"),
        (python3_batch(PIXELS[0], [0, 0, -1]), "image 2 has the label -1; expected 0 to 9"),
        (python3_batch(PIXELS[0], [0, 0, 1.5]), "image 2 has the label 1.5; expected 0 to 9"),
        (python3_batch(PIXELS[0], [2**80, 0, 0]), "image 0 has the label 1208925819614629174706176"),
    ],
)
def test_a_pickle_that_is_no_batch_is_named(content, words, tmp_path):
    folder = python_folder(tmp_path)
    (folder / "test_batch").write_bytes(content)
    line = refusal(tmp_path)
    assert line.startswith(f"{folder / 'test_batch'}: ")
    assert words in line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has 0 bytes; expected one or more records of 3073 bytes"),
        (bytes(3073 * 2 - 1), "has 6145 bytes; expected one or more records of 3073 bytes"),
        (bytes(3074 * 4), "has 12296 bytes"),
        (bytes(3073) + b"\n" + bytes(3072), "image 1 has the label 10; expected 0 to 9"),
    ],
)
def test_a_binary_file_that_is_no_batch_is_named(content, words, tmp_path):
    folder = binary_folder(tmp_path)
    (folder / "data_batch_4.bin").write_bytes(content)
    line = refusal(folder)
    assert line.startswith(f"{folder / 'data_batch_4.bin'}: ")
    assert words in line


@pytest.mark.parametrize(
    ("make", "name"), [(python_folder, "data_batch_2"), (binary_folder, "test_batch.bin")]
)
def test_a_missing_batch_is_named(make, name, tmp_path):
    folder = make(tmp_path)
    (folder / name).unlink()
    line = refusal(folder)
    assert line.startswith(f"{folder / name}: is missing; expected data_batch_1")
    (folder / name).mkdir()
    assert f"{folder / name}: cannot be read: " in refusal(folder)


@pytest.mark.parametrize("name", ["data_batch_1", "data_batch_4", "test_batch"])
def test_a_batch_cut_between_two_records_is_named(name, tmp_path):
    folder = binary_folder(tmp_path)
    path = folder / f"{name}.bin"
    path.write_bytes(path.read_bytes()[: 2 * 3073])
    assert refusal(tmp_path).startswith(f"{path}: holds 2 images; expected 3, as the other batches")


@pytest.mark.parametrize(
    ("one", "copy"), [("data_batch_1", "test_batch"), ("data_batch_5", "test_batch"), (*PYTHON[1:3],)]
)
@pytest.mark.parametrize("with_labels", [True, False])
def test_a_batch_that_is_a_copy_is_refused(one, copy, with_labels, tmp_path):
    folder = binary_folder(tmp_path)
    place = PYTHON.index(one if with_labels else copy)
    (folder / f"{copy}.bin").write_bytes(binary_batch(PIXELS[PYTHON.index(one)], LABELS[place]))
    line = refusal(folder)
    assert line.startswith(f"{folder / copy}.bin: 3 of its 3 images are there twice")


@pytest.mark.parametrize(("repeated", "is_refused"), [(0, False), (2, False), (3, True), (20, True)])
def test_a_tenth_of_the_test_images_may_be_known(repeated, is_refused, tmp_path):
    pixels = RANDOM.integers(256, size=(6, 20, 3072), dtype=np.uint8)
    pixels[5, :repeated] = pixels[0, 20 - repeated :]
    contents = zip(BINARY, (binary_batch(batch, [1] * 20) for batch in pixels), strict=True)
    folder = write_folder(tmp_path / "cifar-10-batches-bin", dict(contents))
    if is_refused:
        assert f"{folder / 'test_batch.bin'}: {repeated} of its 20 images" in refusal(folder)
    else:
        np.testing.assert_array_equal(load_cifar10(folder).test_images, images(pixels[5]))


def test_parts_that_test_what_they_train_are_refused(tmp_path):
    path = write_part(tmp_path / "cifar10_part0.npz", [0, 1], [0, 1])
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **(arrays | {"r_test": arrays["r_train"]}))
    assert f"{tmp_path}, test: 2 of its 2 images are there twice" in refusal(tmp_path)


@pytest.mark.parametrize("make", [binary_folder, python_archive, parts])
def test_a_file_that_cannot_be_read_is_named(make, tmp_path, monkeypatch):
    make(tmp_path)
    path = sorted(path for path in tmp_path.rglob("*") if path.is_file())[0]

    def broken(self):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", broken)
    assert refusal(tmp_path).startswith(f"{path}: cannot be read: Input/output error")


def test_a_place_without_the_data_is_named(tmp_path):
    assert f"{tmp_path / 'nowhere'}: there is no such folder or archive" in refusal(tmp_path / "nowhere")
    line = refusal(tmp_path)
    assert f"{tmp_path}: holds no CIFAR-10; expected cifar-10-batches-py/data_batch_1" in line
    assert "cifar-10-binary.tar.gz or cifar10_part0.npz" in line


@pytest.mark.parametrize("make", [python_archive, binary_archive])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"<html>404</html>",
        lambda content: content[:1000],
        lambda content: content[: len(content) // 2],
        lambda content: content[:-4],
        lambda content: content[:-8] + bytes([content[-8] ^ 1]) + content[-7:],
        lambda content: content[:5000] + bytes(200) + content[5200:],
        lambda content: gzip.compress(b"text, in no archive"),
        lambda content: gzip.compress(gzip.decompress(content)[:9000]),
        lambda content: gzip.compress(gzip.decompress(content).replace(b"ustar", b"rat's", 3)),
    ],
)
def test_a_damaged_archive_is_named(make, damage, tmp_path):
    path = make(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert refusal(tmp_path).startswith(f"{path}: is damaged, or no .tar.gz or .tar: ")


def test_another_archive_is_refused_with_what_it_holds(tmp_path):
    path = write_archive(tmp_path / "cifar-10-python.tar.gz", {"cifar-100-python/train": b"1"})
    line = refusal(path)
    assert f"{path}: holds ['batches.meta', 'cifar-100-python/train']; expected cifar-10-batches-py" in line


@pytest.mark.parametrize("start", ["/", "../", "cifar-10-batches-bin/"])
def test_members_count_by_their_exact_names_alone(start, tmp_path):
    contents = {f"{start}cifar-10-batches-bin/{name}": b"1" for name in BINARY}
    assert "expected cifar-10-batches-py/data_batch_1 or" in refusal(
        write_archive(tmp_path / "a.tar.gz", contents)
    )


def test_a_link_in_an_archive_is_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(binary_batch(PIXELS[0], LABELS[0]))
    contents = {
        f"cifar-10-batches-bin/{name}": content for name, content in batches(BINARY, binary_batch).items()
    }
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name.endswith("data_batch_5.bin"):
                member.size, member.type, member.linkname = 0, tarfile.SYMTYPE, str(secret)
            archive.addfile(member, io.BytesIO(content))
    assert f"{path}/cifar-10-batches-bin/data_batch_5.bin: is missing" in refusal(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"r_train": None}, "is damaged, or no .npz with r_train, y_train, i_train"),
        ({"r_train": np.zeros((3, 2, 32, 31), np.uint8)}, "have the shapes [(3, 2, 32, 31), (2,), (2,)]"),
        (
            {"r_train": np.zeros((3, 2, 32, 32), np.int32)},
            "the pixels are int32; expected uint8 (3, n, 32, 32)",
        ),
        ({"y_test": np.zeros(3, np.uint8)}, "expected uint8 (3, n, 32, 32), (n,) and (n,)"),
        ({"y_test": np.array([3, 11], np.uint8)}, "image 1 has the label 11; expected 0 to 9"),
        ({"y_train": np.array([0.5, 1])}, "image 0 has the label 0.5; expected 0 to 9"),
        ({"i_train": np.array([[0], [1]])}, "(n,) and (n,)"),
        ({"i_train": np.array([print, None])}, "is damaged, or no .npz"),
    ],
)
def test_a_part_that_is_none_is_named(changes, words, tmp_path):
    path = write_part(tmp_path / "cifar10_part0.npz", [0, 1], [0, 1])
    with np.load(path) as archive:
        arrays = {**archive, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    line = refusal(tmp_path)
    assert line.startswith(f"{path}: ")
    assert words in line


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", GOOD])
def test_a_part_that_is_no_npz_is_named(content, tmp_path):
    (tmp_path / "cifar10_part1.npz").write_bytes(content)
    assert f"{tmp_path / 'cifar10_part1.npz'}: is damaged, or no .npz with" in refusal(tmp_path)


def test_a_truncated_part_is_named(tmp_path):
    path = write_part(tmp_path / "cifar10_part0.npz", [0, 1], [0, 1])
    path.write_bytes(path.read_bytes()[:-100])
    assert f"{path}: is damaged, or no .npz with" in refusal(tmp_path)


def test_a_part_that_is_there_twice_is_refused(tmp_path):
    for number in range(2):
        write_part(tmp_path / f"cifar10_part{number}.npz", [0, 1], [0, 1])
    assert "images are there twice in cifar10_part0.npz, cifar10_part1.npz" in refusal(tmp_path)


def hub(load_dataset):
    return types.SimpleNamespace(load_dataset=load_dataset)


def test_the_hub_gives_the_same_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    splits = {
        "train": {"img": list(TRAIN_IMAGES), "label": TRAIN_LABELS},
        "test": {"img": list(TEST_IMAGES), "label": TEST_LABELS},
    }
    monkeypatch.setitem(sys.modules, "datasets", hub(lambda name, split: splits[split]))
    assert_is_all_of_it(load_cifar10("hub"))
    assert_is_all_of_it(load_cifar10(Path("hub")))


def test_a_folder_called_hub_is_a_folder(tmp_path, monkeypatch):
    binary_folder(tmp_path / "hub")
    monkeypatch.chdir(tmp_path)
    assert_is_all_of_it(load_cifar10(Path("hub")))


def unreachable(name, split):
    raise ConnectionError("no network\nat all")


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (None, "hub: needs the package datasets: pip install 'headcount[hub]'"),
        (hub(unreachable), "hub: uoft-cs/cifar10: cannot be read: no network at all"),
        (hub(lambda name, split: {"label": []}), "hub: uoft-cs/cifar10: cannot be read: 'img'"),
        (
            hub(lambda name, split: {"img": [np.zeros((32, 32), np.uint8)], "label": [1]}),
            "hub: uoft-cs/cifar10, train: images are uint8 of shape (1, 32, 32); expected",
        ),
    ],
)
def test_a_hub_that_fails_is_told_in_one_line(module, words, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", module)
    assert words in refusal("hub")
