"""The exercises: their starting code and solutions, what they ask for, and the grader that answers an attempt."""
