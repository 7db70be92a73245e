"""Notebooks executed, reports written; the command and the doctor."""
