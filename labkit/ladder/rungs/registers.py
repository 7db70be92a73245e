"""Rung 03: the sum in a register, the loops unrolled."""

from labkit.ladder.options import BLOCK
from labkit.ladder.rung import Rung
from labkit.ladder.rungs.baseline import DIRECT

RUNG = Rung(
    number=3,
    name="registers",
    idea="The sum stays in a register, and with K known at compile time the inner loops unroll.",
    calls=(DIRECT,),
    base="constant",
    path=("sum", "restrict", "fixed_k"),
    options={"block": BLOCK},
    defines=lambda s: {"FIXED_K": s.K, **({"FIXED_C": s.C} if s.step == "channels" else {})},
    constant="mask",
    steps={
        "sum": "The sum in a register, stored once.",
        "restrict": "The compiler may also assume that the arrays do not overlap.",
        "fixed_k": "K is also known at compile time; unrolling is left to the compiler.",
        "rolled": "The rung with its loops kept: what unrolling gains.",
        "channels": "C is known at compile time, and the loop over the channels unrolls, too.",
    },
)
