"""Is it right, and how long does it take?"""
