"""The texts of the second target: numbers in LLVM's text, tables of variables, object files."""

import re

import pytest

from hostcuda.wasm import ir, objects, site, toolchain

pytestmark = pytest.mark.thorough("the engine in a browser")

TEXT = """\
@_ZZ1fE4tile = internal global [4 x float] zeroinitializer, section "hc_shared", align 4
@scale = dso_local global [2 x float] zeroinitializer, section "hc_constant.0", align 4
@.str = private unnamed_addr constant [3 x i8] c"a,\\22", align 1
@threadIdx = external global [3 x i32]

define void @f(ptr %0) {
  call void @__tsan_read4(ptr @threadIdx), !dbg !5
  br i1 undef, label %3, label %2, !dbg !5

2:
  call void @__tsan_write4(ptr %0), !dbg !6
  br label %4

3:
  call void @__tsan_read4(ptr %0), !dbg !7
  %9 = call ptr @malloc(i32 4), !dbg !5
  br label %4

4:
  call void @__tsan_unaligned_read8(ptr @threadIdx), !dbg !8
  ret void
}
!1 = !DIFile(filename: "/lab/hostcuda/include/warp.h", directory: "/")
!2 = !DIFile(filename: "a.cu", directory: "/")
!3 = distinct !DISubprogram(name: "f", scope: !2, file: !2, line: 1)
!4 = distinct !DISubprogram(name: "g", scope: !1, file: !1, line: 1)
!5 = !DILocation(line: 5, column: 1, scope: !3)
!6 = !DILocation(line: 6, column: 1, scope: !3)
!7 = !DILocation(line: 70, column: 1, scope: !4, inlinedAt: !5)
!8 = !DILocation(line: 8, column: 1, scope: !3)
"""


def enumerate_as_text(*names):
    return ((str(number), name) for number, name in enumerate(names, 1))


@pytest.fixture(scope="module")
def prepared():
    return ir.prepare(TEXT, lambda file: file.startswith("/lab/"))


def test_each_call_has_a_number_in_the_order_of_the_control_flow(prepared):
    text, places = prepared
    sites = re.findall(r"store i32 (\d+), ptr @hostcuda_site, align 4\n.*?@(\w+)\(", text)
    assert sites == [
        *enumerate_as_text(
            "__tsan_write4", "__tsan_read4", "__wrap_malloc", "__tsan_unaligned_read8"
        )
    ]
    assert places == [
        (None, None, True),
        ("a.cu", 6, False),
        ("a.cu", 5, True),
        ("a.cu", 5, False),
        ("a.cu", 8, False),
    ]
    assert "@hostcuda_site_count = constant i32 5" in text


MOVED = """\
define void @f(ptr %0, ptr %1) {
  call void @__tsan_read4(ptr %0)
  %first = load float, ptr %0, align 4
  call void @__tsan_read4(ptr %1)
  %before.loop = load float, ptr %1, align 4
  call void @__tsan_read4(ptr %1), !dbg !6
  %unused = load float, ptr %1, align 4, !dbg !6
  br label %2

2:
  %sum = phi float [ %first, %0 ], [ %next, %2 ]
  %next = fadd float %sum, %before.loop, !dbg !5
  br i1 undef, label %2, label %3

3:
  call void @__tsan_write4(ptr %0)
  store float %next, ptr %0, align 4
  ret void
}
"""


def test_a_moved_load_has_the_line_of_the_same_pointer_or_of_its_first_use():
    facts = TEXT[TEXT.index("!1 =") :]
    _, places = ir.prepare(f"{MOVED}{facts}", lambda file: file.startswith("/lab/"))
    assert [line for _, line, _ in places] == [None, 5, 6, 6, None]


def test_a_read_of_an_index_is_no_access(prepared):
    assert "call void @__tsan_read4(ptr @threadIdx)" not in prepared[0]


def test_variables_have_red_zones_and_a_row_in_the_table(prepared):
    text, _ = prepared
    rows = re.findall(
        r"ptr @hostcuda_name_\d+, ptr @([\w.]+), i32 ptrtoint .*? to i32\), i32 (\d)", text
    )
    assert rows == [("_ZZ1fE4tile", "1"), ("scale", "2"), (".str", "4")]
    assert 'c"tile\\00"' in text and 'c"scale\\00"' in text
    assert re.search(
        r'_ZZ1fE4tile = .*"hc_shared", align 16\n@hostcuda_zone_0 = .*\[256 x i8\].*"hc_shared"',
        text,
    )
    assert text.count("@hostcuda_zone_") == 2


def test_a_variable_has_its_name_as_declared():
    symbols = {"_ZZ4convPfE4tile": "tile", "_ZZ1fE1a_0": "a", "x": "x", "_ZN1a1bE": "b"}
    assert {symbol: ir._demangle(symbol) for symbol in symbols} == symbols


def test_calls_by_pointers_are_seen_in_object_files():
    head = b"\0asm\1\0\0\0"
    # of section 3: a call, a type
    relocations = b"\x0areloc.CODE" + bytes([3, 2, 0, 5, 1, 6, 9, 0])
    assert objects.calls_pointers(head + bytes([0, len(relocations)]) + relocations)
    plain = b"\x0areloc.CODE" + bytes([3, 1, 0, 5, 1])
    assert not objects.calls_pointers(head + bytes([1, 1, 0]) + bytes([0, len(plain)]) + plain)


def test_the_pages_toolchain_has_all_that_the_engine_asks_it_for():
    texts = {
        name: text.decode() for name, text in site.engine_files().items() if name.endswith(".py")
    }
    asked = {
        (word, name)
        for name, text in texts.items()
        if name != "hostcuda/host/toolchain.py"
        for word in re.findall(r"\btoolchain\.([a-zA-Z]\w*)", text)
    }
    assert ("run_all", "hostcuda/build/unit.py") in asked
    assert not [place for place in asked if not hasattr(toolchain, place[0])]
