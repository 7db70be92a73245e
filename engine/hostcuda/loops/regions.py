"""Regions and sections: the statements between two barriers, and the role of each variable in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from hostcuda.loops.direct import find_last_return
from hostcuda.loops.effects import KernelVariable, Scope
from hostcuda.loops.reader import find_jumps
from hostcuda.loops.steps import KernelPlan, PlanStep
from hostcuda.loops.uniform import is_uniform
from hostcuda.loops.words import BINARY, NeedsFibers


@dataclass(eq=False)
class Region:
    """Statements between two barriers or rendezvous, which a loop over the threads or over a warp's lanes runs."""

    number: int  # its index in the kernel's list of all regions, by which `KernelVariable`s note it
    steps: list[PlanStep] = field(default_factory=list)
    returns: bool = False  # whether a thread may return in it
    section: Section | None = None  # around it; None where a loop over the block's threads runs it

    def used_variables(self) -> set[KernelVariable]:
        """Return the kernel's variables that the region's statements use; one loop over threads runs these."""
        return set().union(*(step.effects.uses for step in self.steps))


@dataclass(eq=False)
class Section:
    """Regions between two barriers, and rendezvous of a warp's lanes between them: a loop over the warps runs all."""

    items: list[Item] = field(default_factory=list)  # regions, and steps that a warp does once
    # all of them, those inside of loops and ifs, too
    regions: list[Region] = field(default_factory=list)
    # the steps that a warp does once, at any depth
    warp_steps: list[PlanStep] = field(default_factory=list)

    @property
    def returns(self) -> bool:
        """Whether a thread may return in one of the section's regions."""
        return any(region.returns for region in self.regions)

    @property
    def places(self) -> set[int | PlanStep]:
        """The places of this section at which a variable can be used.

        They are the numbers of its regions (loops over a warp's lanes), and the steps that the warp does once.
        """
        return {region.number for region in self.regions} | set(self.warp_steps)

    def used_variables(self) -> set[KernelVariable]:
        """Return the kernel's variables that the statements of this section, which is one loop over warps, use."""
        steps = self.warp_steps + [step for region in self.regions for step in region.steps]
        return set().union(*(step.effects.uses for step in steps))

    def variables_from_before(self) -> set[KernelVariable]:
        """Return the variables that a warp's own steps use and that were declared before this section.

        Such a step, which is done once per warp, uses the values of the warp's first thread. Variables
        with the same value in the whole block, and shared ones, are left out.
        """
        declared = {step.variable for step in self.warp_steps}
        used = set().union(*(step.effects.uses for step in self.warp_steps))
        return {v for v in used - declared if v.role != "uniform" and not v.shared}


# of a block: loops over threads, over warps, what is done once
Item: TypeAlias = Region | Section | PlanStep


class RegionBuilder:
    """Splits the blocks of a `KernelPlan` into items: regions, sections, and steps done once per block or warp.

    All regions are also added to the list `regions`.
    """

    def __init__(self, kernel: KernelPlan, regions: list[Region]):
        self.kernel, self.regions = kernel, regions
        # the last step that may return
        self.guard = find_last_return(kernel.outer_steps) if kernel.direct else None

    def split_block(self, steps: list[PlanStep], section: Section | None = None) -> list[Item]:
        """Split the steps of a block of statements into items, which will be loops over the threads or the warps.

        So no thread passes a barrier before all have reached it: the loop before it has then ended.
        For example, ``a; __syncthreads(); b;`` becomes two regions, and ``a; __syncwarp(); b;`` a section
        of a region, the step __syncwarp() and a region.

        An item is a `Region` (a loop over threads), a `Section` (a loop over warps, whose regions are
        loops over a warp's lanes), or a step that is done once. The items are in the order of the
        statements, but a step with the same values in all threads moves before its region or section.
        If a `section` is given, a warp runs the block alone. Also sets `items` of the steps that have
        blocks in them.

        The kinds of steps: "barrier" is __syncthreads(), "rendezvous" a warp function, "loop", "if" and
        "block" have one of these two in them, and "jump" is a return, break or continue.
        """
        # This is one function because every kind of step changes which region and which section are
        # open.
        outer_section = section  # the one around the block
        # open_item: the region or section that may still get statements
        items, region, open_item = ([], None, None)

        def insert_once(step: PlanStep, close: bool) -> None:
            """Insert a step that is done once: before the open item, or with `close` after it, and end the item."""
            nonlocal region, open_item, section
            if close or (open_item and self._must_follow(open_item, step)):
                region, open_item, section = None, None, outer_section
            # the open item is the last one
            items.insert(len(items) - (open_item is not None), step)
            if outer_section:  # once per warp, which runs the whole block
                self._add_warp_step(outer_section, step)

        for step in steps:
            if step.kind == "barrier":  # it ends what is open, and leaves no item
                region, open_item, section = None, None, outer_section
            elif step.kind == "rendezvous" or (  # or a statement that a warp runs alone
                step.warp is not None and step.kind in ("loop", "if", "block")
            ):
                if section is None:
                    section = Section()
                    if region:  # since the barrier before: it becomes the section's first one
                        items.pop()
                        self._add_to_section(section, region)
                        section.items.append(region)
                    items.append(section)
                    open_item = section
                region = None
                if step.kind != "rendezvous":
                    step.items = [self.split_block(body, section) for body in step.bodies]
                self._add_warp_step(section, step)
                for counter in step.counters:  # declared in the head of a for loop
                    self._add_warp_step(section, counter)
                # items: of the section's block
                (items if outer_section else section.items).append(step)
                open_item = None if outer_section else section
            elif step.kind in ("loop", "if", "block"):  # with a barrier in it
                region, open_item, section = None, None, None
                step.items = [self.split_block(body) for body in step.bodies]
                items.append(step)
            elif step.kind == "jump":  # all threads take it, or none
                insert_once(step, close=True)
            elif step.variable and (step.variable.role == "uniform" or step.variable.shared):
                insert_once(step, close=False)
            elif step.update and step.update[0].role == "uniform":  # [0]: the variable
                # ``n += 1``: behind what reads the n before that
                is_read = open_item is not None and step.update[0] in open_item.used_variables()
                insert_once(step, close=is_read)
            else:  # each thread does it, in a region
                if region is None:
                    # A kernel without barriers (`direct`) is one section, whose loop is over groups of
                    # neighboring threads.
                    if self.kernel.direct and section is None:
                        section = Section()
                        items.append(section)
                    region = Region(len(self.regions))
                    self.regions.append(region)
                    if section:
                        self._add_to_section(section, region)
                    opened_here = section if outer_section is None else None  # else into `items`
                    (opened_here.items if opened_here else items).append(region)
                    open_item = opened_here or region
                self._add_to_region(region, step)
                # `guard` is the last statement in which a thread may return. It ends its region, so that
                # the threads that are left begin the next one together.
                region = None if step is self.guard else region
        return items

    def _add_to_section(self, section: Section, region: Region) -> None:
        """Make a region one of a section."""
        region.section = section
        section.regions.append(region)

    def _add_to_region(self, region: Region, step: PlanStep) -> None:
        """Add a step to a region, and note the region's number at each variable that the step uses or may change."""
        region.steps.append(step)
        region.returns |= "return" in find_jumps(step.node)
        if step.variable:
            step.variable.region = region.number
        for variable in step.effects.uses:
            variable.uses.add(region.number)
        for variable in step.effects.changes | step.effects.addressed:
            variable.changes.add(region.number)

    def _add_warp_step(self, section: Section, step: PlanStep) -> None:
        """Add a step that each warp does once, and note it in `uses` of each variable that it names."""
        section.warp_steps.append(step)
        for variable in step.effects.uses:
            variable.uses.add(step)

    def _must_follow(self, item: Region | Section, step: PlanStep) -> bool:
        """Return whether a step that is done once may not move before a `Region` or `Section`, the open item."""
        tokens = self.kernel.reader.tokens
        words = {token.text for token in tokens[step.node.first : step.node.last]}
        # a division stays behind a return such as ``if (n == 0) return;``
        if item.returns and words & {"/", "%", "/=", "%="}:
            return True
        # A declaration stays behind what names another variable with its name.
        regions = item.regions if isinstance(item, Section) else [item]
        nodes = [other.node for region in regions for other in region.steps]
        nodes += [other.node for other in item.warp_steps] if isinstance(item, Section) else []
        name = step.variable.name if step.variable else None
        return any(token.text == name for node in nodes for token in tokens[node.first : node.last])


def assign_roles(kernel: KernelPlan, regions: list[Region]) -> None:
    """Decide how each variable that differs between threads gets from one region to the next: set its `role`.

    A variable stays "local" if one region uses it. It becomes "recomputed" if each region that uses it
    may repeat its declaration, else "kept": an array keeps it across barriers. Raises `NeedsFibers`
    if none of these is possible.
    """
    for region in regions:
        # a region's variables share the scope of one loop, where a name can be declared only once
        names = [v.name for v in region.used_variables() if v.role != "uniform" and not v.shared]
        if repeated_names := {name for name in names if names.count(name) > 1}:
            raise NeedsFibers(
                f"it has two variables {min(repeated_names)} between the same barriers"
            )
    for parameter in kernel.parameters:  # a thread may change those that are not "uniform"
        if parameter.role != "uniform":
            parameter.role = "kept"
    for step in kernel.steps:
        variable = step.variable
        if variable is None or variable.role == "uniform" or variable.shared:
            continue
        # used in the region that declares it, and by no pointer: it stays "local"
        if variable.uses <= {variable.region} and not variable.addressed:
            continue
        if _can_recompute(kernel, step, variable):
            variable.role = "recomputed"
            continue
        variable.role = "kept"
        if len(variable.dimensions) > 1:  # measured: on fibers such tiles stay in registers
            raise NeedsFibers(f"{variable.name}, an array of each thread, is faster on fibers")
        words = set(re.findall(r"\w+", variable.specifiers))
        # the array needs a type of its own, and is neither constant nor static
        if words & {"auto", "constexpr", "static", "alignas", "__align__"}:
            raise NeedsFibers(f"{variable.name}, which lives across a barrier, is not understood")


def _can_recompute(kernel: KernelPlan, step: PlanStep, variable: KernelVariable) -> bool:
    """Return whether each region may repeat the declaration `step` of a variable: it is cheap, and the same in all."""
    is_changed = any(
        variable in other.effects.changes | other.effects.addressed for other in kernel.steps
    )
    is_plain = variable.type in ("scalar", "pointer", "assumed") and not variable.array
    first, last = kernel.initializer(variable)
    if is_changed or not is_plain or first == last:
        return False
    if not is_uniform(kernel, first, last, step.scope, {"threadIdx"}, ("uniform", "recomputed")):
        return False
    # The declaration moves to the beginning of its region, where its name may be another's.
    if any(token.text == variable.name for token in kernel.reader.tokens[: variable.place]):
        return False
    names = [other.name for other in kernel.variables]
    if any(names.count(other.name) > 1 for other in (variable, *variable.needs)):
        return False  # where the declaration is repeated, another variable may have that name
    if any(at > variable.place for need in variable.needs for at in need.changed_uniformly):
        return False  # what it is made of changes after it
    return not any(_is_costly(kernel, at, first, last, step.scope) for at in range(first, last))


def _is_costly(kernel: KernelPlan, at: int, first: int, last: int, scope: Scope) -> bool:
    """Return whether token `at` is a division by no constant whose operands differ between threads.

    It is one of the expression tokens[first:last], in the scope `scope`.
    """
    divisor, operand_ends = kernel.reader.tokens[at + 1], BINARY - {"*", "/", "%"}
    by_constant = divisor.kind == "number" or divisor.text in kernel.constants | {"warpSize"}
    if kernel.reader.text(at) not in ("/", "%") or by_constant:
        return False
    start, end = (
        kernel.reader.find_start(at, first, operand_ends),
        kernel.reader.find_end(at, last, operand_ends),
    )
    return not is_uniform(kernel, start, end, scope)
