"""The lab's figures, in one style: each function draws one, on the page or into a file."""

from labkit.draw.charts import ladder, op_times, roofline, time

__all__ = ["ladder", "op_times", "roofline", "time"]
