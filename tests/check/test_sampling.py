"""Counting some images for all: the same as counting them all, and only where that is certain."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

import labkit
from labkit.evidence import sampling
from labkit.evidence.profiling import COUNTED

# Bytes an image: x 1144, y 1188, half as many in FP16; neither a multiple of a sector of 32.
ODD = labkit.Layer("odd", 2, 11, 13, 3, 3)
BATCH = 37
VARIANTS = [each for rung in labkit.LADDER for each in labkit.variants(rung.number)
            if not each.library and rung.number != 10]  # the blocks of 10 walk over the images
KEYS = ["launch", "file", "line", "space", "op", "size"]


@pytest.fixture(scope="module")
def both():
    return [labkit.profile(VARIANTS, ODD, BATCH, engine="cpu", sample=sample) for sample in (True, False)]


@pytest.mark.parametrize("number", range(len(VARIANTS)), ids=[each.label for each in VARIANTS])
def test_every_variant_counts_as_if_all_had_been_counted(both, number):
    sampled, complete = ([row for row in found.table.fillna(0).to_dict("records")
                          if row["variant"] == VARIANTS[number].label] for found in both)  # fmt: skip
    assert [row["kernel"] for row in sampled] == [row["kernel"] for row in complete]
    for some, every in zip(sampled, complete, strict=True):
        assert some.pop("blocks_counted") < every.pop("blocks_counted") == some["blocks"]
        assert f"of {BATCH} images" in some.pop("source") and every.pop("source") == COUNTED
        assert some == every
        assert some["lab__unique_bytes_global.sum"] > 0


def test_its_lines_too(both):
    sampled, complete = (found.sites.drop(columns="variant").set_index(KEYS).sort_index() for found in both)
    pd.testing.assert_frame_equal(sampled, complete, check_dtype=False, check_like=True)


def test_the_note_says_so(both):
    assert "some images were counted and stand for all" in both[0].note
    assert "stand for" not in both[1].note


def test_periods():
    """288 and 224 bytes an image: at once. Else y's 1188 = 4 * 297 decide: after 8 images, in FP16 after 16."""
    assert sampling.period(labkit.variant(1), labkit.Layer("even", 1, 9, 8, 1, 2)) == 1
    assert sampling.period(labkit.variant(1), ODD) == 8
    assert sampling.period(labkit.variant(8), ODD) == 16


@pytest.mark.parametrize("change", [
    ("const int m = blockIdx.y;", "const int m = blockIdx.y + b % 2;"),
    ("h >= Ho", "h >= Ho - (int)blockIdx.z"),
    ("h >= Ho", "h >= Ho - B"),
    ("h >= Ho", "h >= Ho - (int)gridDim.z"),
])  # fmt: skip
def test_a_kernel_that_tells_images_apart_is_counted_on_all(change, monkeypatch):
    variant = labkit.variant(1)
    changed = labkit.variant(1, source=variant.source.replace(*change))
    assert changed.source != variant.source
    object.__setattr__(changed, "own", False)
    assert sampling.period(changed, ODD) is None
    assert sampling.period(variant, ODD) is not None


def test_blocks_that_walk_over_the_images_are_counted_on_all():
    assert sampling.period(labkit.variant(10), ODD) is None


def test_a_readers_own_kernel_is_counted_on_all():
    own = labkit.variant(1, source=labkit.variant(1).source)
    assert sampling.parts(own, ODD, 1000, 1 << 30) is None
    table = labkit.profile(own, ODD, 17, engine="cpu").table
    assert table["source"].tolist() == [COUNTED] and (table["blocks"] == table["blocks_counted"]).all()


def test_a_batch_in_chunks():
    """Of 05 with room for 10 images of u a launch: the chunks begin where they would, and all images are there."""
    variant, scratch = labkit.variant(5), labkit.variant(5).rung.scratch(sampling.scope(ODD, 1, {}))
    free = 4 * 10 * scratch + 100 * (1144 + 1188)
    chunks = sampling.parts(variant, ODD, 100, free)
    assert [sum(part.times * part.images for part in chunk) for chunk in chunks] == [10] * 10
    assert [chunk[0].offset for chunk in chunks] == [10 * i % 8 for i in range(10)]


SCRIPT = r"""
import json
from dataclasses import asdict
import numpy as np
import labkit
from labkit.evidence import sampling
from labkit.cpu import checkmode
from labkit.cuda import driver, ensure_context

ensure_context()
layer, offset, images = labkit.Layer("odd", 2, 11, 13, 3, 3), 3, 21
variant = labkit.variant(6)
every = sampling.period(variant, layer)
x, k = np.ones(layer.x_shape(every), np.float32), np.ones(layer.k_shape, np.float32)
chunk = [sampling.Part(offset, every, images // every), sampling.Part(offset, images % every, 1)]
ran = sampling.run(variant, layer, [chunk], x, k)
buffers = [driver.mem_alloc((offset + images) * size) for size in (1144, 1188)]
at = [int(buffer) + offset * size for buffer, size in zip(buffers, (1144, 1188))]
with variant.plan(layer, images, x=at[0], y=at[1]) as plan:
    plan.load(np.ones(layer.x_shape(images), np.float32), k)
    plan.run()
    driver.Context.synchronize()
records = [asdict(record) for record in checkmode.launches()]
(found,) = sampling.combine(records[:-1], [{"launches": 1, **ran}])
print(json.dumps([found["counts"], records[-1]["counts"]]))
"""


def test_a_chunk_that_begins_within_a_sector():
    environment = {**os.environ, "LABKIT_ENGINE": "cpu", "LABKIT_CHECK": "profile"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sampled, complete = json.loads(done.stdout)
    assert sampled == complete
