"""Insert a call before each statement into the assembler text of a kernel, so that one thread can be followed.

The tool ``step`` compiles kernels without optimization: each variable has its place in the frame
from the beginning of its function to the end. The compiler marks where each statement of the source
begins (``.loc``), and each block with variables of its own (``.LBB``). `insert_stops` puts a call
there that changes no register. Two more facts are needed: where the frame pointer is known to point
to the frame (``.cfi``), because no other place is used; and where a function gets its frame,
because nothing in it has been set then.

A table beside the code, ``hostcuda_stops``, has a row per call: `read` returns it. Only the user's
own functions are followed, not those of headers in a folder ``include``.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

LEAD = 7  # bytes from where a call is inserted to its return address: pushfq and call
STATEMENT, ENTERED, BEGAN = range(3)  # as in runtime/steps.cpp

# keeps the processor's flags
_CALL = "\tpushfq\n\tcall\t*hostcuda_step@GOTPCREL(%rip)\n.Llk_stop{}:\n\tpopfq"
_FILE = re.compile(r'\t\.file (\d+) (?:"([^"]*)" )?"([^"]*)"')  # number, folder, name
_LOC = re.compile(r"\t\.loc (\d+) (\d+)(?: \d+)?(.*)")
_BLOCK = re.compile(r"\.LBB\d+:")
_FRAMED = re.compile(r"\t\.cfi_def_cfa_register (?:6|%rbp)\b")
_UNFRAMED = re.compile(r"\t\.cfi_(?:def_cfa (?:7|%rsp)\b|endproc|startproc)")
_FRAME_BYTES = re.compile(r"\tsubq\t\$(\d+), %rsp")
# files of headers, and of the text that the engine generates
_FOREIGN = re.compile(r"(?:^|/)include/|^kernel\.cpp$")


@dataclass(frozen=True)
class Stop:
    """A call that `insert_stops` has inserted."""

    place: int  # its return address, from the beginning of the file in memory
    # ``STATEMENT``, ``ENTERED`` (a function has its frame), ``BEGAN`` (a block with variables
    # begins)
    kind: int
    file: str  # of the statement, as the compiler names it
    line: int  # of the statement
    bytes: int  # of the frame that was entered


def insert_stops(text: str) -> str:
    """Return assembler text with calls that report, step by step, which statements and functions of the user run.

    A table behind the text tells what each call stands for: its kind, file and line.
    """
    lines, files, rows = text.split("\n"), {}, []  # files: number -> name; rows: of the table
    # whether the frame pointer points to the frame; whether the code is of the user's own file
    framed = own = False
    # whether the function's frame has been reported; whether the next `.loc` begins a statement
    entered = begins = True

    def insert_call(kind, file_number=0, value=0):
        """Return the text of a call, and add its row; `value` is a statement's line, or a frame's bytes."""
        rows.append(
            f"\t.long\t.Llk_stop{len(rows)} - hostcuda_stops, {kind}, {file_number}, {value}"
        )
        return _CALL.format(len(rows) - 1)

    for at, line in enumerate(lines):
        if match := _FILE.match(line):
            files[int(match[1])] = str(Path(match[2] or "", match[3]))
        elif match := _LOC.match(line):
            number = int(match[1])
            # an unknown file counts as one of the system's headers
            own = not _FOREIGN.search(files.get(number, "/include/"))
            # "\t.loc 1 12 5 is_stmt 0": column 5, and no statement begins; without is_stmt: as
            # before.
            begins = "is_stmt 1" in match[3] or (begins and "is_stmt 0" not in match[3])
            if framed and own and begins:
                lines[at] += "\n" + insert_call(STATEMENT, number, int(match[2]))
            entered |= framed  # the `subq` of a frame comes before the next .loc, or there is none
        elif _FRAMED.match(line):
            framed, entered = True, False
        elif _UNFRAMED.match(line):
            framed = False
        elif framed and own and not entered and (match := _FRAME_BYTES.match(line)):
            lines[at] += "\n" + insert_call(ENTERED, 0, int(match[1]))
        elif framed and own and _BLOCK.match(line):
            lines[at] += "\n" + insert_call(BEGAN)
    names = "".join(
        f"{number}\t{name}\n" for number, name in files.items() if not _FOREIGN.search(name)
    )
    # every byte in octal: names may have any character
    names = "".join(f"\\{byte:03o}" for byte in names.encode())
    return "\n".join(
        [
            *lines,
            '\t.section\t.rodata.hostcuda,"a"',
            "\t.balign\t4",
            "hostcuda_stops:",
            *rows,
            "hostcuda_stops_end:",
            f'\t.ascii\t"{names}"',
            "hostcuda_files_end:",
            "",
        ]
    )


def read(file: ELFFile) -> list[Stop]:
    """Return the calls that `insert_stops` put into a compiled file, sorted by place; [] if it was compiled without."""
    symbols = file.get_section_by_name(".symtab")
    # these symbols mark the table of `insert_stops`, and the names of files behind it
    names = ("hostcuda_stops", "hostcuda_stops_end", "hostcuda_files_end")
    # get_symbol_by_name returns a list, or None
    marks = [(symbols.get_symbol_by_name(name) or [None])[0] if symbols else None for name in names]
    if None in marks:
        return []
    section = file.get_section(marks[0]["st_shndx"])
    begin, end, files_end = (symbol["st_value"] for symbol in marks)
    data = section.data()[begin - section["sh_addr"] : files_end - section["sh_addr"]]
    # file's number -> name; the addresses of the marks become positions in `data`
    files = dict(
        line.split("\t", 1) for line in data[end - begin :].decode(errors="replace").splitlines()
    )
    stops = []
    # A row has four integers: distance of the call from the table, kind, file's number, line or bytes.
    for place, kind, number, value in struct.iter_unpack("<iIII", data[: end - begin]):
        line, size = (value, 0) if kind == STATEMENT else (0, value)
        stops.append(Stop(begin + place, kind, files.get(str(number), ""), line, size))
    return sorted(stops, key=lambda stop: (stop.place, stop.kind))
