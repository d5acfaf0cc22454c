"""Pickled batches of CIFAR-10: nothing in them is run."""

import os
import pickle

import numpy as np
import pytest
from tiny_cifar10 import (
    LABELS,
    PIXELS,
    assert_is_all_of_it,
    python3_batch,
    python_folder,
    refusal,
)

from headcount.data.cifar10.files import load_cifar10


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
    assert written.exists(), "the command works if it is run"
    written.unlink()
    (folder / "data_batch_3").write_bytes(content)
    line = refusal(folder)
    assert not written.exists()
    assert str(folder / "data_batch_3") in line
    assert f"it names 'system' of '{os.system.__module__}'; nothing was run" in line


NAMES = "c_codecs\nencode\n cnumpy\nndarray\n cnumpy\ndtype\n cnumpy.core.multiarray\n_reconstruct\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"c__builtin__\neval\n(S'1'\ntR.", "it names 'eval' of '__builtin__'"),
        (b"cnumpy\nload\n.", "it names 'load' of 'numpy'"),
        (b"cnumpy\nndarray\n(K\1tR.", "it constructs an array directly"),
        (b"\x80\2cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"c_codecs\nencode\n(X\1\0\0\0aX\5\0\0\0rot13tR.", "text in 'rot13'; expected 'latin1'"),
        (pickle.dumps(np.array([print], object), 2), "an array of type 'O8'; expected 'u1'"),
        (pickle.dumps(np.float32(1), 2), "it names 'scalar' of 'numpy._core.multiarray'"),
        (b"\x80\2P1\n.", "persistent"),
        *(
            (name.encode() + b"N}S'__call__'\nNs\x86b.", "it modifies a function")
            for name in NAMES.split(" ")
        ),
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
        (GOOD[:-1], "is damaged or not a pickled batch"),
        (b"<html>404</html>", "is damaged or not a pickled batch"),
        (pickle.dumps([1], 2), "holds list; expected a dictionary with b'data' and b'labels'"),
        (pickle.dumps({b"data": 1, b"fine_labels": []}, 2), "holds [b'data', b'fine_labels']; expected"),
        (python3_batch([1], [1]), "b'data' has the shape None; expected an array of shape (n, 3072)"),
        (python3_batch(PIXELS[0][:, :3000], LABELS[0]), "b'data' has the shape (3, 3000); expected"),
        (python3_batch(PIXELS[0].astype(float), LABELS[0]), "an array of type 'f8'; expected 'u1'"),
        (python3_batch(PIXELS[0], tuple(LABELS[0])), "b'labels' is ("),
        (python3_batch(PIXELS[0], LABELS[0][:2]), "holds 3 images and 2 labels; expected one label each"),
        (python3_batch(PIXELS[0], [0, 10, 0]), "image 1 has the label 10; expected 0 to 9"),
        (python3_batch(PIXELS[0], [0, 0, 1.5]), "image 2 has the label 1.5; expected 0 to 9"),
    ],
)
def test_a_pickle_that_is_no_batch_is_named(content, words, tmp_path):
    folder = python_folder(tmp_path)
    (folder / "test_batch").write_bytes(content)
    line = refusal(tmp_path)
    assert line.startswith(f"{folder / 'test_batch'}: ")
    assert words in line
