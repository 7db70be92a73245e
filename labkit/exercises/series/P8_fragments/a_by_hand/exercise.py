"""Exercise P8a: the fragments of one product on tensor cores."""

from labkit.exercises import Case, Exercise, Kernels
from labkit.exercises.practice import make_product_goals, products

EXERCISE = Exercise(
    title="By hand",
    subject=Kernels(
        products,
        (Case("a product", (1, 16, False)), Case("5 products", (5, 16, False), counted=True)),
        hidden=(range(1, 9), [16], [False]),
    ),
    goals=make_product_goals("5 products", loads=5 * 6, moved=5 * (2 * 384 + 512), operations=5),
)
