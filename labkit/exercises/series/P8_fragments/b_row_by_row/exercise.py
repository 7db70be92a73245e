"""Exercise P8b: a longer sum on tensor cores, with a matrix whose rows are one behind the other."""

from labkit.exercises import Case, Exercise, Kernels
from labkit.exercises.practice import make_product_goals, products

EXERCISE = Exercise(
    title="Row by row",
    subject=Kernels(
        products,
        (
            Case("a product, K = 16", (1, 16, True)),
            Case("2 products, K = 64", (2, 64, True), counted=True),
        ),
        hidden=(range(1, 4), range(16, 161, 16), [True]),
    ),
    goals=make_product_goals(
        "2 products, K = 64", loads=2 * 4 * 8, moved=2 * (2 * 24 * 64 + 512), operations=2 * 4
    ),
)
