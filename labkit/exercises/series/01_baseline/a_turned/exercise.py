"""Exercise 01a: swap the mapping."""

from labkit.exercises import LAYER_1, Exercise, InPlaceOf, Mistake, counted

EXERCISE = Exercise(
    title="Swap the mapping",
    subject=InPlaceOf("baseline", "a", LAYER_1, moves=True),
    lines=2,
    goals=(
        counted(
            "global_store_sectors",
            "layer 1",
            per="global_store_requests",
            what="sectors per store",
            exactly=8,
            predicted="sectors_per_store",
            least={"global_store_requests": 800},
            words="as many as you count on paper for the swapped mapping",
        ),
    ),
    start_reaches=(4,),
    mistakes=(
        Mistake(
            "Both lines use the same part of threadIdx now, so several threads compute one output and others none: "
            "threadIdx.x and threadIdx.y change places.",
            lambda attempt: (
                attempt.runs_wrong
                and not ("threadIdx.x" in attempt.source and "threadIdx.y" in attempt.source)
            ),
        ),
        Mistake(
            "This exchanges the blocks, too. `tiles` counts blocks along w, so w belongs to % tiles and h to / tiles, "
            "as before. Only the threads within a block are mapped in the other way.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(r"\bint h = [^;]*% tiles")
                and attempt.matches(r"\bint w = [^;]*/ tiles")
            ),
        ),
        Mistake(
            "`tiles` is the number of tiles side by side, along w. Its line stays as it was: which block has which "
            "tile does not change.",
            lambda attempt: attempt.runs_wrong and attempt.matches(r"\bint tiles = \(Ho\b"),
        ),
        Mistake(
            "The lines of the sum stay as they were: output (h, w) is y[h * Wo + w] and needs the same inputs, "
            "whichever thread computes it. Only the lines of h and w change: there threadIdx.x and threadIdx.y change "
            "places.",
            lambda attempt: (
                attempt.runs_wrong
                and not attempt.matches(
                    r"\by\[h \* Wo \+ w\] \+= x\[\(c \* H \+ h \+ p\) \* W \+ w \+ q\] \* "
                    r"k\[\(\(m \* C \+ c\) \* K \+ p\) \* K \+ q\];"
                )
            ),
            vague=True,
        ),
        Mistake(
            "Neighbouring lanes still compute neighbours in w, in the reverse order. They should be neighbours in h: "
            "threadIdx.x and threadIdx.y change places.",
            lambda attempt: (
                attempt.count("sectors_per_store", "layer 1") == 4
                and attempt.matches(r"\bint w = [^;]*- threadIdx\.x")
            ),
        ),
    ),
)
