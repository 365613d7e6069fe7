"""What could be read off figure 4.3b: accuracy by training size and dimension.

The thesis prints no numbers; these are pixels of the published picture, good to about 0.01.
"""

DIMENSIONS = (64, 128, 256, 512)

NO_TEACHER: dict[int, tuple[float, ...]] = {
    1024: (0.89, 0.65, 0.51, 0.50),
    776: (0.82, 0.58, 0.52, 0.51),
    588: (0.70, 0.55, 0.52, 0.51),
    512: (0.66, 0.54, 0.51, 0.50),
    388: (0.58, 0.54, 0.51, 0.50),
    294: (0.555, 0.52, 0.51, 0.50),
    256: (0.55, 0.52, 0.51, 0.51),
    194: (0.54, 0.52, 0.51, 0.50),
    128: (0.52, 0.51, 0.51, 0.50),
}

DISTILLED: dict[int, tuple[float, ...]] = {
    1024: (0.98, 0.98, 0.975, 0.95),
    776: (0.98, 0.98, 0.97, 0.92),
    588: (0.98, 0.97, 0.96, 0.78),
    512: (0.98, 0.97, 0.94, 0.62),
    388: (0.975, 0.96, 0.89, 0.53),
    294: (0.96, 0.93, 0.66, 0.53),
    256: (0.95, 0.88, 0.55, 0.53),
    194: (0.94, 0.75, 0.53, 0.52),
    128: (0.79, 0.54, 0.52, 0.53),
}

READ_SIZES = tuple(sorted(NO_TEACHER))


def mean_of(table: dict[int, tuple[float, ...]]) -> float:
    """Returns the mean over all cells."""
    cells = [value for row in table.values() for value in row]
    return sum(cells) / len(cells)
