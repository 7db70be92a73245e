"""Replace `labkit.exercises.subjects` in the playground, where there is no NumPy.

The arguments that an ``exercise.py`` gives to these names are ignored: cases, launches, inputs and
expected results come with the site (`labkit_playground.data`), and `Stored` gets them after the
exercise was loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labkit.base.errors import CheckFailed
from labkit.exercises.exercise import Case, Counts, LastLaunch
from labkit.measure.symptoms import Products
from labkit_playground.comparison import Array, compare, compare_array, numbers

LAYERS = {"layer 1": None, "layer 2": None}
LAYER_1 = {"layer 1": None}
HIDDEN = (None, None, None)


class Stored:
    """A subject that judges attempts with the stored data of an exercise.

    Attributes
    ----------
    stored : list of dict
        The cases; see `labkit_playground.data`.
    arrays : callable
        Maps an array's description to its bytes.
    """

    headers = ()
    cases: Sequence[Case] = ()

    def __init__(self, *_: object, moves: bool = False, **__: object):
        """Keep `moves`, which the judge reads: whether outputs belong to other threads in a solution than at first."""
        self.moves = moves

    def load(self, stored: list[dict], arrays) -> None:
        """Set the stored cases of the exercise; `arrays` is a function from an array's description to its bytes."""
        self.stored, self.arrays = stored, arrays
        # "counted": whether the case's accesses are counted, for the goal
        self.cases = tuple(Case(case["name"], case, case["counted"]) for case in stored)

    def source(self, attempt: str) -> str:
        """Return the text of an attempt as it is: in the playground the page has put it together before."""
        return attempt

    def _numbers(self, array):
        """Return the numbers of a stored array, given its description: ``at``, ``bytes``, ``type``, ``shape``."""
        return numbers(self.arrays(array), array["type"])

    def compare(self, source: str, case: Case, runs: Sequence[Mapping[str, bytes]]) -> None:
        """Compare the arrays that a kernel wrote with the stored right ones; raise CheckFailed at the first wrong one.

        `runs` has a dict per run: the name of each output and its bytes. `case.what` is the stored
        case, a dict.
        """
        for run, arrays in zip(case.what["runs"], runs, strict=True):
            for wanted in run["outputs"]:  # "expected" and the like describe stored arrays
                array = Array(
                    bytes(arrays[wanted["name"]]),
                    wanted["type"],
                    tuple(wanted["shape"]),
                    self._numbers(wanted["expected"]),
                    self._numbers(wanted["allowed"]),
                )
                if "title" in wanted:  # the output of a convolution
                    x, k = wanted["inputs"]
                    inputs = Products(
                        self._numbers(x), self._numbers(k), tuple(x["shape"]), tuple(k["shape"])
                    )
                    compare(array, wanted["title"], inputs)
                else:
                    self._compare(array, wanted, case.name)

    def _compare(self, array: Array, stored_output: Mapping, case_name: str) -> None:
        """Raise CheckFailed if an array is wrong; say how many elements no thread has stored.

        `stored_output` is an item of ``outputs``. Only if it is ``marked``, the elements hold a value
        that no kernel stores before the launch.
        """
        try:
            compare_array(f"{stored_output['name']}, {case_name},", array)
        except CheckFailed as wrong:
            before, width = (
                self.arrays(stored_output["before"]),
                len(array.data) // len(array.values),
            )
            places = range(0, len(array.data), width) if stored_output["marked"] else ()
            untouched = sum(array.data[at : at + width] == before[at : at + width] for at in places)
            unset = f"\n{untouched:,} of its elements hold what they held before the launch: no thread has stored them"
            raise CheckFailed(f"{wrong}{unset if untouched else ''}") from None

    def last_launch(self, message: str) -> LastLaunch:
        """Return the last launch of the case whose shape a message of `compare` names, to explain a wrong result."""
        # "on": the beginning of the message's title, as "on lenet86 layer 1, B"
        case = next(case for case in self.stored if case["on"] in message)
        launch = case["launches"][-1]
        _, *outputs = case["runs"][0]["outputs"][0]["shape"]  # without the batch
        return LastLaunch(
            launch["kernel"], launch["grid"], launch["block"], tuple(outputs), case["layer"]
        )

    def measure(self, case: Case, runs: Sequence[Mapping[str, bytes]]) -> Counts:
        """Return {"largest_error": 1e-7}, of the last run's output: |error| over the sum of |x| |k|.

        `runs` has a dict per run: the name of each output and its bytes. Returns {} if no such sum is
        stored: then no goal asks for the error.
        """
        wanted = case.what["runs"][-1]["outputs"][0]
        if "scale" not in wanted:
            return {}
        rows = zip(
            numbers(bytes(runs[-1]["y"]), wanted["type"]),
            self._numbers(wanted["expected"]),
            self._numbers(wanted["scale"]),
            strict=True,
        )
        return {"largest_error": max(abs(got - exact) / scale for got, exact, scale in rows)}


InPlaceOf = Kernels = Numbers = Stored
ArrayLaunch = object


draw_floats = draw_summands = launch = Output = whole_number = lambda *given, **options: None
