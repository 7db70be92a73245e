"""The findings of check mode: one for all accesses with the same error at the same place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["of"]


def of(records: Sequence[dict]) -> list[dict]:
    """The findings in the CPU engine's records, a dict per launch.

    Returns
    -------
    list of dict
        The fields of `hostcuda.checking.Finding`; ``count`` and ``launches``, in which it was found; and ``source``.
    """
    rows: dict[tuple, dict] = {}
    for record in records:
        seen = set()
        for finding in record["findings"]:
            other = finding["other"] or {}
            key = (*(finding[name] for name in ("tool", "kind", "kernel", "file", "line")),
                   other.get("file"), other.get("line"))
            row = rows.setdefault(key, {**finding, "count": 0, "launches": 0, "source": "CPU engine"})
            row["count"] += finding["count"]
            row["launches"] += key not in seen
            seen.add(key)
    return _folded(rows.values())


def _folded(rows: Iterable[dict]) -> list[dict]:
    """The rows, with one for all races on an array with lines in common: often one barrier prevents all of them."""
    groups: list[tuple[tuple, set, list]] = []  # kind, kernel and array; the places; the rows
    for row in rows:
        ends = [row, row["other"]] if row["tool"] == "racecheck" and row["other"] and row["buffer"] else []
        places = {(end["file"], end["line"]) for end in ends if end["line"]}
        what = (row["kind"], row["kernel"], (row["buffer"] or {}).get("base"))
        joined = [group for group in groups if group[0] == what and group[1] & places]
        if not joined:
            groups.append((what, places, [row]))
            continue
        for _, others, members in joined[1:]:
            joined[0][1].update(others)
            joined[0][2].extend(members)
        joined[0][1].update(places)
        joined[0][2].append(row)
        groups = [group for group in groups if all(group is not other for other in joined[1:])]
    for _, places, (first, *others) in groups:
        if not others:
            continue
        first["count"] += sum(row["count"] for row in others)
        first["launches"] = max(row["launches"] for row in (first, *others))
        lines = sorted({line for _, line in places})
        more = f"{len(others)} more pair{'s' * (len(others) > 1)}"
        first["message"] += f"; the same in {more} of accesses, lines {', '.join(map(str, lines))}"
    return [members[0] for _, _, members in groups]
