"""The compiler's messages, with the files and lines of the user."""

import os
import re
from pathlib import Path

from hostcuda.errors import CompileError
from hostcuda.host import toolchain

NAME = "kernel.cu"  # the file's name in messages, unless the source has another one in #line

# error: 'cublasCreate' was not declared in this scope
_UNKNOWN = re.compile(
    r"(?m)(error: )(?=.*(?:declared|not name|unknown type)).*?'((?:cuda|cu|cublas|cufft|curand|nvrtc)[A-Z]\w*)'.*"
)
# file.cu:1:10: fatal error: thrust/sort.h: No such file or directory
_LIBRARY_HEADER = re.compile(
    r"(?m)^(.*fatal error: )'?((?:cub|thrust|cutlass|cute|cuda|nv)/[\w./]*|"
    r"(?:curand|cublas\w*|cufft\w*|cusparse|cusolver\w*|cudnn\w*|nccl|nvml|nvrtc|npp\w*|cuda_gl_interop)\.h|nvfunctional)"
)
# The same for headers that come with samples and books, not with the toolkit.
_SAMPLES_HEADER = re.compile(
    r"(?m)^(.*fatal error: )'?((?:[\w./-]*/)?(?:helper_\w+|rendercheck_\w+|exception|book)\.h)(?=[':])"
)

# The sentences of a static_assert that `rewrite` or the headers write for what the engine lacks.
_REFUSAL = re.compile(
    "error: .*(?:the CPU engine (?:has no|reads)|a __global__ function takes no) "
)
_INCLUDE = str(toolchain.INCLUDE)
# ``file.cu:3:5: error: what``, or the head of what follows, ``file.cu: In function 'f':``.
_LOCATED = re.compile(
    r"^(?P<place>(?P<file>[^\s:][^:\n]*):\d+(?::\d+)?):\s+(?P<what>.*)|^(?P<head>[^\s:][^:\n]*): (?:In|At) "
)
_NOISE = re.compile(
    r"In file included from |\s+from |compilation terminated|cc1plus: note: disable pass |"
    # clang's: how many messages there are, and which of g++'s flags it does not know
    r"\d+ (?:error|warning)s?(?: and \d+ errors?)? generated|[^\s:]*clang[^\s:]*: warning: |"
    r"warning: unknown warning option "
)
_ENGINE_NAMES = r"hostcuda::\w+|cudaMemcpy|__(?:shfl|ballot|any|all)"
_ENGINE_WARNING = re.compile(
    rf"(?<=warning: )'[^']*\b(?:{_ENGINE_NAMES})[^']*' is deprecated: (.*?)(?: \[-W.*\])?$"
)
# clang's
_ASSERTED = re.compile(
    r"static(?:_assert| assertion) failed(?: due to requirement '.*?')?:? (\"?)(.+)\1$"
)
_MACRO_USE = re.compile(
    r"in (?:expansion|definition) of macro '(?:HOSTCUDA_\w*|__\w+__)'|expanded from (macro '|here)"
)
_INLINED = re.compile(r"\s+inlined from .* at ([^\s:]+:\d+:\d+)[,:]$")  # g++
_LEADS_HERE = re.compile(r"required from|note: in instantiation of .* requested here")  # g++, clang


def find_file_name(source: str) -> str:
    """Return a source's file name for messages: that of a ``#line`` in its first line, or else "kernel.cu"."""
    line = re.match(r'\s*#\s*line\s+\d+\s+"([^"]+)"', source)
    return line[1] if line else NAME


def make_error(source: str, command: list[str], out: str, err: str) -> CompileError:
    """Return the error to raise for a compilation that failed, with remedies for what users often miss.

    `command` is the compiler's, `out` and `err` what it printed, `err` as `tidy` returns it.
    """
    err = _UNKNOWN.sub(r"\1the CPU engine has no \2: run the program on a GPU, or without it", err)
    if library := _LIBRARY_HEADER.search(err):
        err = f"{library[1]}the CPU engine has no header {library[2]}: write the loop yourself, or run it on a GPU"
    if samples := _SAMPLES_HEADER.search(err):
        err = (
            f"{samples[1]}there is no {samples[2]}: it belongs to the program's project and not to the CUDA toolkit "
            "(helper_cuda.h and its like: folder Common of github.com/NVIDIA/cuda-samples). Get it, and name its "
            'folder: --options "-I FOLDER"'
        )
    if refusals := [line for line in err.splitlines() if _REFUSAL.search(line)]:
        # each sentence -> the first line with it; the last one comes first
        first_lines = {line.partition("error: ")[2]: line for line in reversed(refusals)}
        # refusals of cudaBindTexture and cudaUnbindTexture follow from that of the texture reference
        has_references = any("texture references" in sentence for sentence in first_lines)
        unique = [
            line
            for sentence, line in first_lines.items()
            if not (has_references and "indTexture" in sentence)
        ]
        err = "\n".join(reversed(unique))  # the compiler's other errors follow from these
    # inline PTX becomes a generic lambda, which the user's source does not have: no line about it
    err = re.sub(r"(?m)^.*: In instantiation of .*<lambda\(.*\n(?=.*the CPU engine)", "", err)
    err = err.replace("static assertion failed: the CPU engine", "the CPU engine")
    message = f"compilation of {find_file_name(source)} failed:\n{err.strip()}"
    if re.search("template with C linkage|templates must have C\\+\\+ linkage", err):
        message += (
            '\nTemplates need SourceModule(..., no_extern_c=True), and then extern "C" before each kernel that is to '
            "be found by its plain name."
        )
    return CompileError(message, command, out, err)


def tidy(text: str, folder: Path, generated: str) -> str:
    """Return a compiler's messages as one text that names only the user's own files.

    It is without the include stack, notes at the engine's own macros, and other lines about the
    engine's headers or the file `generated` in the build `folder`, which has the source in it. An error
    inside the engine's headers is reported at the user's line that caused it; g++ names that line
    before the error, clang after it. So is the use of a variable without a value in a function of
    these headers.
    """
    output, is_dropped = [], False  # whether the last message, with its further lines, is left out
    # the halves of an error in a header: one is still missing
    user_place = engine_error = None
    inlined_at = ""  # the user's place in g++'s note about an inlined function
    for line in text.replace(f"{folder}{os.sep}", "").splitlines():
        located = _LOCATED.match(line)
        if located:  # "file.cu:3:5: error: what" or a head, "file.cu: In function 'f':"
            inlined_at = "" if located["head"] else inlined_at
            file, what = located["file"] or located["head"], located["what"] or ""
            # it is about the engine's own text, in a header or around the source
            in_engine = (
                file in (generated, "<scratch space>")
                or file.startswith(_INCLUDE)
                or "hostcuda.h" in file
            )
            is_dropped = in_engine or bool(_MACRO_USE.search(what))
            if in_engine and what.startswith(("error: ", "fatal error: ")):
                engine_error = what
            elif in_engine and inlined_at and re.match("warning: .* used uninitialized", what):
                output.append(f"{inlined_at}: {what}")
                inlined_at = ""
            elif not in_engine and _LEADS_HERE.match(what):
                user_place, is_dropped = located["place"], True
            if engine_error and user_place:
                output.append(f"{user_place}: {engine_error}")
                user_place = engine_error = None
        elif re.match(r"\S+: ", line):  # a message without a place, such as the linker's
            is_dropped = False
        elif re.match(r"In .*\b(?:function|constructor|destructor|operator)\b", line):
            inlined_at = ""
        elif (
            not inlined_at
            and (inlined := _INLINED.match(line))
            and not inlined[1].startswith((_INCLUDE, generated))
        ):
            inlined_at = inlined[1]
        if not is_dropped and not _NOISE.match(line):
            output.append(
                _ENGINE_WARNING.sub(r"\1", line.replace(_INCLUDE + os.sep, "<hostcuda>/").rstrip())
            )
    output = [
        _ASSERTED.sub(lambda m: "static assertion failed: " + m[2].replace('\\"', '"'), line)
        for line in output
    ]
    return "\n".join(output) + "\n" if output else ""
