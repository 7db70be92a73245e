"""Sweeps."""


def best_on_record(C, H, W, M, K):
    return {}
