"""What a right kernel wastes most is named with its line; a good one is not accused."""

import json

import pytest
from running import run_script

from hostcuda.waste import find_waste

pytestmark = pytest.mark.core("what is said of slow kernels")
SOURCE = """
struct Eight { float a, b, c, d, e, f, g, h; };
__constant__ float weights[64];
#define KERNEL(name) extern "C" __global__ void name(const float *x, float *y, int n)
#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x
KERNEL(strided) { INDEX; if (i < n / 32) y[i] =
  x[i * 32]; }  // here
KERNEL(columns) { int r = threadIdx.x, c = blockIdx.x;
  y[r * 64 + c] = 1; }  // here
KERNEL(transpose) { int c = threadIdx.x + 32 * (blockIdx.x % 2), r = threadIdx.y + 8 * (blockIdx.x / 2);
  y[c * 64 + r] =  // here
  x[r * 64 + c]; }
KERNEL(banks) { __shared__ float s[32][32]; s[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
  __syncthreads(); y[threadIdx.y * 32 + threadIdx.x] =
  s[threadIdx.x][threadIdx.y]; }  // here
KERNEL(sum) { INDEX; if (i < n)
  atomicAdd(y, x[i]); }  // here
KERNEL(bins) { INDEX;
  atomicAdd(&y[(int)x[i] % 4], 1.0f); }  // here
KERNEL(serial) { if (threadIdx.x == 0) { float s = 0; for (int i = 0; i < n; i++)
  s += x[i];  // here
  y[0] = s; } }
KERNEL(rows) { int r = threadIdx.x; float s = 0; for (int c = 0; c < 64; c++)
  s += x[r * 64 + c];  // here
  y[r] = s; }
KERNEL(product) { int c = threadIdx.x, r = threadIdx.y + 8 * blockIdx.x; float s = 0; for (int k = 0; k < 32; k++)
  s += x[r * 32 + k] * x[k * 32 + c];  // here
  y[r * 32 + c] = s; }
KERNEL(tree) { __shared__ float s[256]; int t = threadIdx.x; s[t] = x[t]; __syncthreads();
  for (int d = 1; d < 256; d *= 2) { if (t % (2 * d) == 0)
    s[t] += s[t + d];  // here
    __syncthreads(); } if (t == 0) y[0] = s[0]; }
KERNEL(halves) { INDEX; y[i] = x[i]; }
KERNEL(members) { INDEX; y[i] =
  ((const Eight *)x)[i].a; }  // here
KERNEL(updates) { INDEX; Eight *p = (Eight *)y + i;
  p->a += p->e;  // here
  p->b += p->f;
  p->c += p->g; }
KERNEL(constants) { INDEX; y[i] =
  weights[threadIdx.x % 64]; }  // here
KERNEL(gather) { INDEX; y[i] =
  x[(int)x[i * 37 % n]]; }  // here
KERNEL(flat) { __shared__ float s[512]; int t = threadIdx.x; s[t] = s[t + 256] = x[t]; __syncthreads(); y[t] =
  s[t * 8 % 512]; }  // here
KERNEL(narrow) { __shared__ float s[32][32]; int c = threadIdx.x, r = threadIdx.y; s[r][c] = x[r * 16 + c];
  __syncthreads(); float v = 0; for (int k = 0; k < 16; k++)
  v += s[r][k];  // here
  y[r * 16 + c] = v; }
KERNEL(windows) { INDEX; y[i] = x[3 * i] + x[3 * i + 1] + x[3 * i + 2]; }
KERNEL(colours) { int i = threadIdx.y * 64 + threadIdx.x + 16 * blockIdx.x;
  const unsigned char *c = (const unsigned char *)x;
  int red = c[3 * i];
  int green = c[3 * i + 1];
  ((unsigned char *)y)[i] = red + green + c[3 * i + 2]; }
KERNEL(fields) { INDEX; if (i % 8 < 3) y[i] = i; }
KERNEL(histogram) { __shared__ int s[256]; int t = threadIdx.x; s[t] = 0; __syncthreads();
  int bin = x[t]; for (int k = 0; k < 16; k++)
    atomicAdd(&s[(bin * (bin ^ k) * 11 >> 2) % 256], 1);
  __syncthreads(); y[t] = s[t]; }
KERNEL(copy) { INDEX; if (i < n) y[i] = x[i]; }
KERNEL(padded) { __shared__ float s[32][33]; s[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
  __syncthreads(); y[threadIdx.y * 32 + threadIdx.x] = s[threadIdx.x][threadIdx.y]; }
KERNEL(wide) { INDEX; ((float4 *)y)[i] = ((const float4 *)x)[i]; }
"""
LINES = SOURCE.splitlines()


# Name -> blocks of the grid, threads of the block, and what is said of the line with "here".
SLOW = {
    "strided": (2, (64, 1, 1), "32 sectors per load, 4 is best"),
    "columns": (64, (64, 1, 1), "32 sectors per store, 4 is best"),
    "transpose": (16, (32, 8, 1), "32 sectors per store, 4 is best"),
    "banks": (
        1,
        (32, 32, 1),
        "32 wavefronts per shared load, 1 is best: lanes meet in the same bank: pad the rows of s "
        "by one element at line 13",
    ),
    "sum": (16, (256, 1, 1), "lanes update the same word"),
    "bins": (16, (256, 1, 1), "lanes update the same word"),
    "serial": (1, (256, 1, 1), "1 of 32 lanes take part in each load"),
    "rows": (1, (64, 1, 1), "32 sectors per load, 4 is best"),
    "product": (4, (32, 8, 1), "a block loads each sector 10 times"),
    "tree": (1, (256, 1, 1), "of 32 lanes take part in each"),
    "members": (2, (256, 1, 1), "32 sectors per load, 4 is best"),
    "updates": (2, (256, 1, 1), "32 sectors per load, 4 is best, and too many at line"),
    "gather": (4, (256, 1, 1), "sectors per load, and the data choose which: let neigh"),
    "flat": (1, (256, 1, 1), "in the same bank: let neighbouring threads access neighbouring"),
    "narrow": (1, (16, 16, 1), "a warp covers 2 rows of the block: give the block 32 threads"),
    "constants": (4, (256, 1, 1), "32 addresses per load of constant memory"),
}
GOOD = {
    "copy": (16, (256, 1, 1)),
    "padded": (1, (32, 32, 1)),
    "wide": (4, (256, 1, 1)),
    # no order of the threads makes these better
    "windows": (5, (256, 1, 1)),
    "colours": (4, (16, 16, 1)),
    "fields": (16, (256, 1, 1)),
    "histogram": (1, (256, 1, 1)),
}
HALVES = {"halves": (64, (16, 1, 1))}
SCRIPT = """
from dataclasses import asdict
source, launches = map(json.loads, sys.argv[1:])
module = SourceModule(source, no_extern_c=True)
records = {}
for name, (grid, block, *_) in launches.items():
    x, y = cuda.to_device(np.arange(4096, dtype="f4")), cuda.mem_alloc(4 * 4096)
    module.get_function(name)(x, y, np.int32(4096), grid=(grid,), block=tuple(block))
    cuda.Context.synchronize()
    record = checking.launches()[-1]
    records[name] = {"block": record.block, "sites": record.sites}
print(json.dumps(records))
"""


@pytest.fixture(scope="module")
def wastes():
    """Map each kernel's name to what its launch wastes."""
    launches = json.dumps(SLOW | GOOD | HALVES)
    records = run_script(SCRIPT, json.dumps(SOURCE), launches)
    return {name: find_waste([record], SOURCE) for name, record in records.items()}


@pytest.mark.parametrize("name", SLOW)
def test_the_worst_line_is_named(wastes, name):
    start = next(i for i, line in enumerate(LINES) if line.startswith(f"KERNEL({name})"))
    here = next(i for i, line in enumerate(LINES[start:], start + 1) if "// here" in line)
    waste = wastes[name]
    assert SLOW[name][-1] in f"{waste.says}: {waste.remedy}" and waste.line == here, waste


def test_a_block_of_half_a_warp_is_named(wastes):
    waste = wastes["halves"]
    assert waste.line == 0 and waste.says == "16 threads per block leave 16 of 32 lanes idle"


@pytest.mark.parametrize("name", GOOD)
def test_a_good_kernel_wastes_nothing(wastes, name):
    assert wastes[name] is None
