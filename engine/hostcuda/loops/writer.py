"""Write the text of a kernel's second version."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hostcuda.frontend.tokens import Edit, apply_edits
from hostcuda.loops.direct import find_last_return, require_vectorizable
from hostcuda.loops.effects import KernelVariable, Scope
from hostcuda.loops.reader import Node
from hostcuda.loops.regions import Item, Region, Section
from hostcuda.loops.rows import LIMIT, Rows
from hostcuda.loops.steps import KernelPlan, PlanStep
from hostcuda.loops.words import SHUFFLES, NeedsFibers

PREFIX = "hostcuda_loops_"  # of the names of second versions
_KEPT_BYTES = 48 << 10  # at most so many per thread, for variables that live across a barrier
# rounds of a loop: where a ``#pragma unroll`` has no number, and at most
_UNROLLED_FULLY, _MOST_UNROLLED = (32, 64)


class Writer:
    """Writes a `KernelPlan` that `RegionBuilder` has split into `items`, with a list of all its `regions`.

    The macros in the text, HOSTCUDA_BLOCK and so on, are those of loops.h and lanes.h. Their loops
    declare hostcuda_t, a thread's number in the block, and hostcuda_lane, that in its warp, whose
    first thread is hostcuda_base. *Kept* variables live across a barrier: each has an array, with
    an element per thread.
    """

    def __init__(self, kernel: KernelPlan, items: list[Item], regions: list[Region]):
        self.kernel, self.items, self.rows = kernel, items, Rows(kernel, _find_early(kernel, items))
        self.reader, self.scan = kernel.reader, kernel.scan
        self.out = []  # pieces of the text
        self.section = None  # the `Section` that is being written
        self.changed = set().union(*(step.effects.changes for step in kernel.steps))
        self.counters = {counter.variable for step in kernel.steps for counter in step.counters}
        # In a direct kernel: the variables that a group of neighbors computes once; and a dict of
        # those that grow by 1 from thread to thread, variable -> name of the constant with the
        # first thread's value.
        self.computed_by_group, self.first_values = set(), {}
        # Whether threads that have returned must be skipped: others go on after the region of the
        # return or, if the last region is in a loop and so not in `items`, may run that one again.
        self.masked = not kernel.direct and (
            any(region.returns for region in regions[:-1])
            or (any(region.returns for region in regions) and regions[-1] not in items)
        )

    def write(self) -> str:
        """Return the text of the kernel's second version, a function that runs all threads of a block in loops."""
        body, scan = self.kernel.body, self.scan
        # a line marker: what follows comes from this position of the source
        self.out.append(scan.marker(body.start))
        name = scan.text[body.name_start : body.name_end]
        # The head: template <int n> __global__ __attribute__((noinline)) void
        # hostcuda_loops_f(const float *const x)
        specifiers = f"{scan.text[body.start : body.marker_end]} __attribute__((noinline))"
        self.out.append(specifiers + scan.text[body.marker_end : body.name_start] + PREFIX + name)
        # Parameters of which the reader found no change get const: if it has missed one, the text does
        # not compile, and the kernel runs on fibers.
        # position: of the parameter's name in the text; -1 for an array
        constants = [
            v for v in self.kernel.parameters if v.position >= 0 and self._is_declared_const(v)
        ]
        # directly before the name, so that of a pointer the pointer itself is const
        edits = [(v.position, v.position, "const ") for v in constants]
        self.out.append(apply_edits(scan.text, edits, body.name_end, body.open))
        # the macro declares blockIdx, blockDim and the number of threads, hostcuda_threads
        self.out.append("{ HOSTCUDA_BLOCK\n")
        # These types of the template were assumed to be numbers or pointers. With another type, the
        # text does not compile.
        self.out += [
            f"hostcuda_require_plain({type_})\n"
            for type_ in sorted(self.kernel.effects_reader.assumed)
        ]
        # a check for each assumption about a parameter's type or largest value, if there is one
        for parameter in self.kernel.parameters:
            self._write_proof(parameter)
        if self.masked:  # an array that says which threads have not returned yet
            self.out.append("HOSTCUDA_MASK\n")
        # Threads may change a parameter ("kept"): each gets a copy, an element of an array.
        for parameter in self.kernel.parameters:
            if parameter.role == "kept":
                kept = self._name_array(parameter)
                self._declare_array(parameter)
                loop = "for (hostcuda_size hostcuda_t = 0; hostcuda_t < hostcuda_threads; ++hostcuda_t)"
                self.out.append(f"{loop} {kept}[hostcuda_t] = {parameter.name};\n")
        self._write_items(self.items)
        self.out.append("}\n")
        return "".join(self.out)

    def _write_items(self, items: list[Item]) -> None:
        """Write the items of a block: each is a `Region`, a `Section` or a step of all threads (`PlanStep`)."""
        for item in items:
            if isinstance(item, Region):
                self._write_region(item)
            elif isinstance(item, Section):
                (self._write_groups if self.kernel.direct else self._write_section)(item)
            elif item.kind == "rendezvous":
                self._write_rendezvous(item.node)
            elif variable := item.variable:  # it is a declaration
                self.out.append(self.scan.marker(self.reader.tokens[variable.place].start))
                edits = self._edit_constants(*variable.initializer, item.scope)
                declarator = self._write_declarator(variable, edits=edits, as_const=True)
                self.out.append(f"{variable.specifiers} {declarator};\n")
                self._write_proof(variable)
            elif item.kind in ("loop", "if", "block"):
                self._write_control(item)
            else:  # a statement of uniform values, or a jump of all threads
                self._write_code(
                    item.node,
                    edits=self._edit_constants(item.node.first, item.node.last, item.scope),
                )

    def _write_control(self, step: PlanStep) -> None:
        """Write the step of a loop, an if or a block that all threads run together, around the items in it."""
        node, parts = step.node, step.node.parts
        self.out.append(self.scan.marker(self.reader.tokens[node.first].start))
        if node.kind == "for":
            declarators = [
                self._write_declarator(
                    counter.declared,
                    edits=self._edit_constants(*counter.declared.initializer, counter.scope),
                )
                for counter in step.counters
            ]
            declaration = (
                f"{step.counters[0].declared.specifiers} {', '.join(declarators)}"
                if declarators
                else ""
            )
            updates = ", ".join(
                self._write_expression(span, step.scope) for span in self.kernel.loop_steps(step)
            )
            condition = self._write_expression(parts["condition"], step.scope)
            self.out.append(f"for ({declaration}; {condition}; {updates}) {{")
            for counter in step.counters:
                self._write_proof(counter.declared)
        elif node.kind == "do":
            self.out.append("do {")
        elif node.kind == "block":
            self.out.append("{")
        else:
            kind = "if constexpr" if self.reader.text(node.first + 1) == "constexpr" else node.kind
            self.out.append(f"{kind} ({self._write_expression(parts['condition'], step.scope)}) {{")
        self._write_items(step.items[0])  # of the body, or of what the condition chooses
        self.out.append("}")
        if len(step.items) > 1:
            self.out.append(" else {")
            self._write_items(step.items[1])
            self.out.append("}")
        condition = (
            self._write_expression(parts["condition"], step.scope) if node.kind == "do" else ""
        )
        self.out.append(f" while ({condition});\n" if condition else "\n")

    def _write_expression(self, span: tuple[int, int], scope: Scope) -> str:
        """Return the text of an expression, a span of tokens, that is computed once for many threads."""
        return self.kernel.text(*span, self._edit_constants(*span, scope))

    def _write_declarator(
        self,
        variable: KernelVariable,
        name: str | None = None,
        edits: Iterable[Edit] = (),
        as_const: bool = False,
    ) -> str:
        """Return a variable's declarator, such as "* const p[3] = q", with `edits` of its first value.

        `name` replaces its own name. `as_const`: add const if the variable never changes.
        """
        signs = f"{variable.signs} " if variable.signs else ""
        if as_const and self._is_declared_const(variable):
            signs += "const "
        bounds, initializer = (
            self.kernel.text(*variable.bounds),
            self.kernel.text(*variable.initializer, edits),
        )
        return f"{signs}{name or variable.name}{bounds} {initializer}".rstrip()

    def _is_declared_const(self, variable: KernelVariable) -> bool:
        """Return whether to add const to a declaration, so that the compiler proves that the variable never changes."""
        first, last = variable.initializer
        has_value = variable in self.kernel.parameters or first < last
        computed_once = variable.role in ("uniform", "recomputed") and not (
            variable.shared or variable.array
        )
        # const already
        return (
            has_value and computed_once and variable not in self.changed and not variable.constant
        )

    def _write_proof(self, variable: KernelVariable) -> None:
        """Write checks behind a variable's declaration: of a type that may be no built-in one, of a value's limit."""
        if variable.type == "assumed" and variable.role != "local":
            self.out.append(f"hostcuda_require_plain(decltype({variable.name}))\n")
        if variable in self.rows.limits:  # a block with a larger value begins again, on fibers
            self.out.append(f"HOSTCUDA_LIMIT({variable.name}, {LIMIT})\n")

    def _edit_constants(self, first: int, last: int, scope: Scope) -> list[Edit]:
        """Return edits that wrap constants in tokens[first:last], so that the compiler proves them constant."""
        tokens, constants = self.reader.tokens, self.kernel.file.constants
        return [
            (token.start, token.end, f"hostcuda_constant({token.text})")
            for at, token in enumerate(tokens[first:last], first)
            if token.text in constants
            and token.text not in scope
            and self.reader.text(at - 1) not in (".", "->", "::")
        ]

    def _write_const_copies(self, region: Region) -> list[str]:
        """Write const copies of the uniform variables that a region uses and that change elsewhere.

        Return a list of declarations of these copies, in the region's loop, under the variables'
        names: so the compiler proves that the region does not change them.
        """
        used = {
            v
            for v in region.used_variables()
            if v.role == "uniform" and not (v.shared or v.array or v.constant)
        }
        rebound = [v for v in self.kernel.variables if v in used & (self.changed | self.counters)]
        # Outside of the loop under another name: ``const auto n = n;`` would name itself.
        names = {
            v: f"hostcuda_same_{self.kernel.variables.index(v)}_{region.number}" for v in rebound
        }
        self.out += [f"const auto {name} = {variable.name};\n" for variable, name in names.items()]
        types = [
            f"{self._get_kept_type(v)} __restrict__ const"
            if "restrict" in v.signs
            else "const auto"
            for v in names
        ]
        return [
            f"{type_} {v.name} = {name};\n"
            for type_, (v, name) in zip(types, names.items(), strict=True)
        ]

    def _write_section(self, section: Section) -> None:
        """Write a loop over the warps, which runs the items of a `Section`."""
        self.section, places = section, section.places
        # arrays that other sections use, too, precede the loop
        for variable in self.kernel.variables:
            if (
                variable.role == "kept"
                and not self._is_in_section(variable)
                and variable.region in places
            ):
                self._declare_array(variable)
        self.out.append("HOSTCUDA_WARPS { HOSTCUDA_WARP {\n")
        # hostcuda_first, the warp's first thread that is left; a warp without one is passed over
        if self.masked:
            self.out.append("HOSTCUDA_FIRST_LEFT\n")
        # Slots: the memory of each rendezvous into which the lanes write what they offer.
        numbers = [
            self._read_rendezvous(step.node)[0]
            for step in section.warp_steps
            if step.kind == "rendezvous"
        ]
        self.out.append("".join(f"HOSTCUDA_SLOTS({number}) " for number in numbers) + "\n")
        # the warp's own steps use its first thread's values
        from_before = section.variables_from_before()
        for variable in self._find_recomputed(from_before):
            self._write_declaration(variable)
        for variable in (
            v for v in self.kernel.variables if v in from_before and v.role != "recomputed"
        ):
            # The value must be in an array by now, and the section must not change it.
            if variable.role != "kept" or variable.region in places or places & variable.changes:
                raise NeedsFibers(f"its warps look at {variable.name}, which each thread has")
            lane = "hostcuda_first" if self.masked else "hostcuda_base"
            value = f"{self._name_array(variable)}[{lane}]"
            self.out.append(f"{self._get_kept_type(variable)} const {variable.name} = {value};\n")
        self._write_items(section.items)
        # A label for HOSTCUDA_LEAVE_IF_NONE_LEFT, with which a region goes to the next warp if all
        # lanes have returned.
        end = (
            f"hostcuda_next_{section.regions[0].number}:;"
            if section.regions and section.returns
            else ""
        )
        self.out.append(f"}} {end} }}\n")
        self.section = None
        if section.returns and self.masked:
            self.out.append("HOSTCUDA_RETURN_IF_NONE_LEFT\n")

    def _write_groups(self, section: Section) -> None:
        """Write a loop over the groups of neighbors, which runs the only `Section` of a direct kernel.

        Raise `NeedsFibers` if that would be no faster, or needs what each thread has.
        """
        self.section, steps = section, self.kernel.outer_steps
        require_vectorizable(self.kernel, section, self.rows)
        # If threads may return in the first region, it precedes the rest, which is for each run of
        # neighbors that are left: so many items, and the steps before the last return.
        first_items = int(section.regions[0].returns)
        last_return = find_last_return(steps) if first_items else None
        first_steps = steps.index(last_return) if last_return else 0
        self.out.append("HOSTCUDA_GROUPS { HOSTCUDA_WARP HOSTCUDA_GROUP\n")
        self._declare_for_group(steps[:first_steps])
        self._write_items(section.items[:first_items])
        self.out.append("hostcuda::runs(hostcuda_live, hostcuda_lanes, HOSTCUDA_RUN {\n")
        self._declare_for_group(steps[first_steps:])
        if section.variables_from_before() - self.computed_by_group:
            raise NeedsFibers("its groups look at what each thread has")
        self._write_items(section.items[first_items:])
        self.out.append("}); }\n")

    def _declare_for_group(self, steps: list[PlanStep]) -> None:
        """Declare once per group those variables of `steps` that are the same for its threads, or grow by 1."""
        for variable in (
            step.variable for step in steps if step.variable and step.variable.role == "recomputed"
        ):
            if variable in self.rows.same_in_row | self.rows.next_in_row:
                self._write_declaration(variable)
                self.computed_by_group.add(variable)
            if variable in self.rows.next_in_row:
                self.first_values[variable] = (
                    f"hostcuda_first_{self.kernel.variables.index(variable)}"
                )
                self.out.append(f"const int {self.first_values[variable]} = {variable.name};\n")

    def _read_rendezvous(self, node: Node) -> tuple[str, str]:
        """Return (number, kind), both texts, of a rendezvous, a node such as ``hostcuda_meet(7, shuffle_down);``."""
        return self.reader.text(node.first + 2), self.reader.text(node.first + 4)

    def _write_rendezvous(self, node: Node) -> None:
        """Write what happens where the lanes of a warp wait: which of them are there, and a result equal for all."""
        number, kind = self._read_rendezvous(node)
        self.out.append(self.scan.marker(self.reader.tokens[node.first].start))
        # __syncwarp gives no result: the end of the loop over the lanes is all that it needs
        if kind != "sync":
            present = "hostcuda_live + hostcuda_base, " if self.masked else ""
            self.out.append(
                f"const unsigned hostcuda_present_{number} = hostcuda::present({present}hostcuda_lanes);\n"
            )
            # a vote or a reduction: all lanes get the same result
            if kind not in SHUFFLES.values():
                self.out.append(f"HOSTCUDA_MEET({number}, {kind})\n")

    def _is_in_section(self, variable: KernelVariable) -> bool:
        """Return whether a variable is used only in the `Section` being written: then its array is in that loop."""
        places = self.section.places if self.section else set()
        return variable.region in places and variable.uses <= places and not variable.addressed

    def _name_element(self, variable: KernelVariable) -> str:
        """Return the text of the thread's element in the array of a variable that lives across a barrier."""
        return f"{self._name_array(variable)}[{'hostcuda_lane' if self._is_in_section(variable) else 'hostcuda_t'}]"

    def _name_array(self, variable: KernelVariable) -> str:
        """Return the name, which nothing else has, of the array of a variable that lives across a barrier."""
        return f"hostcuda_kept_{variable.name}_{self.kernel.variables.index(variable)}"

    def _write_region(self, region: Region) -> None:
        """Write the loop over the threads of a `Region`: variables, statements, and what later regions need."""
        kept = [v for v in self.kernel.variables if v.role == "kept" and region.number in v.uses]
        self._write_loop_head(region, kept)
        # hostcuda_left: whether the thread is left, that is has not returned.
        self.out.append(
            "{\n"
            if not (self.kernel.direct and region.returns)
            else "bool hostcuda_left = true; {\n"
        )
        for step in region.steps:
            if step.kind != "declaration":
                self._write_code(
                    step.node,
                    region,
                    self.rows.edit_tokens(step.node.first, step.node.last, step.scope),
                )
            elif step.declared.role != "recomputed":
                self._write_declaration(step.declared)
        for variable in kept:
            if not variable.addressed and (
                variable.region == region.number or region.number in variable.changes
            ):
                self.out.append(
                    f"hostcuda::copy({self._name_element(variable)}, {variable.name});\n"
                )
        self.out.append("}\n")
        if region.returns:
            left = "hostcuda_live[hostcuda_lane] = hostcuda_left" if self.kernel.direct else ""
            self.out.append(f"hostcuda_end_{region.number}:; {left};\n")
        self.out.append("}\n")
        if region.returns and self.masked:
            next_warp = (
                f"HOSTCUDA_LEAVE_IF_NONE_LEFT({self.section.regions[0].number})\n"
                if self.section
                else ""
            )
            self.out.append(next_warp or "HOSTCUDA_RETURN_IF_NONE_LEFT\n")

    def _write_loop_head(self, region: Region, kept: list[KernelVariable]) -> None:
        """Write the arrays of variables that a region declares, the head of its loop, and variables from before it.

        `kept` is the list of those that the region uses and that live across a barrier.
        """
        for variable in kept:
            if variable.region == region.number and (
                self.section is None or self._is_in_section(variable)
            ):
                self._declare_array(variable)
        rebound = self._write_const_copies(region)
        loop = (
            "HOSTCUDA_LANES { HOSTCUDA_LANE\n"
            if self.section
            else "HOSTCUDA_THREADS { HOSTCUDA_THREAD\n"
        )
        self.out.append("HOSTCUDA_NEIGHBORS { HOSTCUDA_LANE\n" if self.kernel.direct else loop)
        self.out += rebound
        if self.masked:
            self.out.append("if (!hostcuda_live[hostcuda_t]) continue;\n")
        for variable in self._find_recomputed(region.used_variables()):
            if variable in self.first_values:
                self.out.append(
                    f"const int {variable.name} = {self.first_values[variable]} + (int)hostcuda_lane;\n"
                )
            elif variable not in self.computed_by_group:
                self._write_declaration(variable)
        for variable in kept:
            if variable.region != region.number:
                self.out.append(
                    self._write_fetch(variable, region.number in variable.changes) + "\n"
                )

    def _declare_array(self, variable: KernelVariable) -> None:
        """Write the array, with an element per thread, of a variable that lives across a barrier; limit its size."""
        # All arrays of a block, of up to 1024 threads, are on one stack.
        bytes_per_variable = _KEPT_BYTES // sum(
            other.role == "kept" for other in self.kernel.variables
        )
        array = self._name_array(variable)
        count = "hostcuda_warp" if self._is_in_section(variable) else "hostcuda_threads"
        self.out.append(
            f"\n{self._get_kept_type(variable)} {array}[{count}]{self.kernel.text(*variable.bounds)};\n"
        )
        self.out.append(
            f'static_assert(sizeof *{array} <= {bytes_per_variable}, "this variable needs fibers");\n'
        )

    def _find_recomputed(self, variables: set[KernelVariable]) -> list[KernelVariable]:
        """Return a list of those `variables` that regions declare again, and those they need, as they are declared."""
        needed = {v for v in variables if v.role == "recomputed"}
        while (
            missing := {v for variable in needed for v in variable.needs if v.role == "recomputed"}
            - needed
        ):
            needed |= missing
        return [v for v in self.kernel.variables if v in needed]

    def _write_fetch(self, variable: KernelVariable, changes: bool) -> str:
        """Return the text that declares a variable from before a barrier in a later region: a copy of its element.

        `changes`: whether the region may change it. If something refers to the variable, it is the
        element itself.
        """
        name, type_, element = (
            variable.name,
            self._get_kept_type(variable),
            self._name_element(variable),
        )
        if variable.addressed:
            return f"{'const ' * variable.constant}auto &{name} = {element};"
        if variable.array:
            return f"{type_} {name}{self.kernel.text(*variable.bounds)}; hostcuda::copy({name}, {element});"
        if "restrict" in variable.signs:
            type_ += " __restrict__"
        if not changes:
            type_ += " const"
        return f"{type_} {name} = hostcuda::fetch({element});"

    def _write_declaration(self, variable: KernelVariable) -> None:
        """Write a thread's declaration of a variable.

        A kept variable that something refers to becomes a reference to its element of the array.
        """
        self.out.append(self.scan.marker(self.reader.tokens[variable.place].start))
        edits = self.rows.edit_initializer(variable)
        if variable.role == "recomputed":
            edits = [
                *edits,
                *self._edit_constants(*variable.initializer, self.rows.scopes[variable]),
            ]
        if variable.role != "kept" or not variable.addressed:
            self.out.append(
                f"{variable.specifiers} {self._write_declarator(variable, edits=edits, as_const=True)};\n"
            )
            self._write_proof(variable)
            return
        element, const = self._name_element(variable), "const " * variable.constant
        if variable.initializer[0] != variable.initializer[1]:
            first = f"hostcuda_first_{variable.name}"  # hostcuda::keep copies it into the element
            self.out.append(
                f"{variable.specifiers} {self._write_declarator(variable, first, edits)};\n"
            )
            element = f"hostcuda::keep({element}, {first})"
        self.out.append(f"{const}auto &{variable.name} = {element};\n")

    @staticmethod
    def _get_kept_type(variable: KernelVariable) -> str:
        """Return the text of the type of a variable's copies in its array: without the const of the variable itself."""
        if "*" not in variable.signs:
            return re.sub(r"\b(const|register|constexpr)\b\s*", "", variable.specifiers) + " "
        before, star, _ = variable.signs.rpartition("*")
        return f"{variable.specifiers} {before}{star}"

    def _write_code(
        self, node: Node, region: Region | None = None, edits: Iterable[Edit] = ()
    ) -> None:
        """Write a statement (`Node`) with its directives and `edits`; in a `region`, a return jumps to its end."""
        begin, tokens = node.start, self.reader.tokens
        self.out.append(self.scan.marker(begin))
        # Sums in a thread's array are vectorized as they are on fibers, not across the threads:
        # without unrolling.
        kept = [v for v in region.used_variables() if v.role == "kept"] if region else []
        keeps_pragmas = region is not None and not any(v.array or "*" in v.signs for v in kept)
        edits = [*edits] + [
            (*d.span(), _write_unroll(d["rest"]) if keeps_pragmas else "")
            for d in self.scan.directives
            if d["word"] == "pragma" and begin <= d.start() < tokens[node.last - 1].end
        ]
        # What a thread that returns notes: "" times False, a text times True.
        leave = (
            "hostcuda_live[hostcuda_t] = false; " * self.masked
            + "hostcuda_left = false; " * self.kernel.direct
        )
        if region is not None:
            for at in range(node.first, node.last):
                if tokens[at].text == "return":  # at + 1 is its semicolon
                    jump = f"{{ {leave}goto hostcuda_end_{region.number}; }}"
                    edits.append((tokens[at].start, tokens[at + 1].end, jump))
        text = apply_edits(self.scan.text, edits, begin, tokens[node.last - 1].end)
        if region and node.kind == "guard":
            text = f"if (!({text})) {{ {leave}goto hostcuda_end_{region.number}; }}"
        self.out.append(f"{text}\n")


def _find_early(kernel: KernelPlan, items: list[Item]) -> set[KernelVariable]:
    """Return the set of variables that a block has before its threads begin; `items`: as `split_block` returns them."""
    early = {parameter for parameter in kernel.parameters if parameter.role == "uniform"}
    for item in items:
        if not isinstance(item, PlanStep) or item.kind in ("loop", "if", "block", "rendezvous"):
            break
        if item.variable and not item.variable.shared:
            early.add(item.variable)
    return early


def _write_unroll(rest: str) -> str:
    """Return the macro that replaces ``#pragma unroll 4``, "" for other pragmas; `rest`: the text after "pragma"."""
    match = re.fullmatch(r"\s+unroll\s*\(?\s*(\d*)\s*\)?\s*", rest)
    return (
        f"HOSTCUDA_UNROLL({min(int(match[1] or _UNROLLED_FULLY), _MOST_UNROLLED)})" if match else ""
    )
