"""The exercises of page 14: typical wrong answers, and what the grader says of each."""

import pytest
from attempts import Wrong, each

from labkit import LabError
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import grade

PARAMETER = "t = i % (K * K + 1), p = t / K"
POSITION = "n = i / (K * K + 1), h = n / C1 % C1, w = n % C1;"
ADD = "    atomicAdd(t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m], values[b].d_c1[m][h][w] * x);\n"

WRONG = {
    "14a": (
        Wrong("the parameter alone", (("t = i / POSITIONS % (K * K + 1)", "t = i % (K * K + 1)"),),
              "does not meet every position", quick=True),
        Wrong("without the bias", ((PARAMETER, "t = i % (K * K), p = t / K"),
                                   (POSITION, "n = i / (K * K), h = n / C1 % C1, w = n % C1;")),
              "the last one is its bias",
              of="solution"),
        Wrong("maps side by side",
              (("m = i / ((K * K + 1) * POSITIONS), t = i / POSITIONS % (K * K + 1)",
                "m = i % MAPS, t = i / MAPS / POSITIONS % (K * K + 1)"),
               ("h = i / C1 % C1, w = i % C1;", "h = i / MAPS / C1 % C1, w = i / MAPS % C1;")),
              "lanes still meet at one address"),
        Wrong("an addition that is not atomic",
              ((ADD, "    *(t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m]) += "
                "values[b].d_c1[m][h][w] * x;\n"),), "only atomicAdd keeps all", of="solution"),
        Wrong("a store", ((ADD, "    *(t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m]) = "
                           "values[b].d_c1[m][h][w] * x;\n"),), "only atomicAdd keeps all", of="solution"),
        Wrong("no guard", (("if (i >= MAPS * (K * K + 1) * POSITIONS) return;", ""),),
              "threads beyond the last product have to return", of="solution"),
        Wrong("h and w swapped", ((POSITION, "n = i / (K * K + 1), w = n / C1 % C1, h = n % C1;"),
                                  ("values[b].d_c1[m][h][w]", "values[b].d_c1[m][w][h]")), "✗ right", of="solution"),
        Wrong("a sum of the warp, whatever it holds",
              ((ADD, "    const float sum = warp_sum(values[b].d_c1[m][h][w] * x);\n    if (i % 32 == 0) "
                "atomicAdd(t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m], sum);\n"),),
              "no number of whole warps"),
    ),
}


test_a_wrong_answer_gets_its_sentence = each(WRONG)


def test_another_kernel_is_refused():
    other = exercise("14a").start.replace("bp_weight_c1", "lanes_apart")
    with pytest.raises(LabError, match="14a asks for the kernel bp_weight_c1, and this has lanes_apart"):
        grade("14a", other, quiet=True, record=False)


def test_other_parameters_are_refused():
    source = exercise("14a").solution.replace("Weights *gradient, int)", "Weights *gradient)")
    assert "bp_weight_c1" in str(grade("14a", source, quiet=True, record=False))


@pytest.mark.thorough
@pytest.mark.parametrize(("rate", "says"), [
    (0.1, "this is the starting code"), (0.2, "Hint 1"), (0.05, "hardly moved"), (0.7, "jump over the minimum"),
    (1, "jump over the minimum"), (5, "jump over the minimum"),
])
def test_wrong_rates(rate, says):
    assert says in str(grade("14b", rate, quiet=True, record=False))


@pytest.mark.parametrize(("values", "says"), [
    (("fast",), "the rate is a number, such as 0.2, not 'fast'"),
    ((None,), "the rate is a number"),
    ((float("nan"),), "the rate is a number"),
    ((-0.1,), "a rate of -0.1 does not train"),
    ((0,), "a rate of 0 does not train"),
    ((0.1, 0.2), "the answer is rate; this has 2 values"),
])
def test_what_is_no_rate_is_refused_in_one_sentence(values, says):
    with pytest.raises(LabError, match=says) as refused:
        grade("14b", *values, quiet=True, record=False)
    assert "\n" not in str(refused.value)
