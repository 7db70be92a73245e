"""The exercises: a folder each, in `series/` or of one's own, and the grader that answers an attempt.

What the ``exercise.py`` of such a folder needs comes from here, see `labkit.exercises.exercise`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "exercise": [
            "SOURCE",
            "Attempt",
            "Bound",
            "Case",
            "Exercise",
            "Goal",
            "Mistake",
            "counted",
        ],
        "subjects": [
            "HIDDEN",
            "LAYERS",
            "LAYER_1",
            "InPlaceOf",
            "Kernels",
            "Numbers",
            "Output",
            "draw_floats",
            "draw_summands",
            "launch",
            "whole_number",
        ],
    },
)
