"""Learning from three hospitals what holds in the next one.

The table has one row per patient: two blood markers, three billing codes, the hospital, and
whether the patient was ill. Illness depends on the markers, in a curve and with some noise, in the
same way everywhere. The codes are written down after the diagnosis, and every hospital has its own
habits: illness raises two of the codes and lowers the third, a different one in each hospital. The
sum of the three codes therefore tells the illness in all three, better than the markers do.

Plain training finds that sum, and fails in new hospitals with other habits. With the AND-mask the
hospitals have to agree on every weight, and on no code do they agree.

Run it with `python examples/own_environments.py`; it takes less than a minute.
"""

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np

from recombine import InvariantClassifier

FEATURES = ["marker_1", "marker_2", "code_1", "code_2", "code_3"]
PATIENTS = {"north": 600, "south": 450, "west": 300}

# How each hospital changes its three codes when a patient is ill.
HABITS = {"north": (1, 1, -1), "south": (1, -1, 1), "west": (-1, 1, 1)}
NEW_HABITS = {"codes unrelated to illness": (0, 0, 0), "codes used the other way": (-1, -1, -1)}


def sample_hospital(
    rng: np.random.Generator, num_patients: int, habits: tuple[int, int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Draws the features and the illness of the patients of one hospital."""
    markers = rng.normal(size=(num_patients, 2))
    is_ill = markers[:, 0] ** 2 + markers[:, 1] > 0.75
    is_ill ^= rng.random(num_patients) < 0.1  # what no marker explains
    codes = np.outer(np.where(is_ill, 1, -1), habits) + 0.5 * rng.normal(size=(num_patients, 3))
    return np.hstack([markers, codes]), is_ill


def write_table(path: Path, rng: np.random.Generator) -> None:
    """Writes the patients of the three hospitals to a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*FEATURES, "hospital", "diagnosis"])
        for hospital, num_patients in PATIENTS.items():
            features, is_ill = sample_hospital(rng, num_patients, HABITS[hospital])
            for row, ill in zip(features, is_ill, strict=True):
                writer.writerow([*row.tolist(), hospital, "ill" if ill else "well"])


def read_table(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns features, diagnoses and hospitals, as one would from a table of one's own."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    X = np.array([[float(row[name]) for name in FEATURES] for row in rows])
    y = np.array([row["diagnosis"] for row in rows])
    return X, y, np.array([row["hospital"] for row in rows])


def compare(random_state: int) -> dict[str, dict[str, float]]:
    """Returns the accuracies of plain training and of the AND-mask, otherwise set up alike."""
    rng = np.random.default_rng(random_state)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "patients.csv"
        write_table(table, rng)
        X, y, hospitals = read_table(table)
    new = {name: sample_hospital(rng, 2000, habits) for name, habits in NEW_HABITS.items()}

    accuracies = {}
    for name, threshold in {"plain training": 0.0, "AND-mask": 1.0}.items():
        model = InvariantClassifier(threshold, random_state=random_state)
        model.fit(X, y, environments=hospitals)
        scores = {"the three hospitals": float(model.score(X, y))}
        for habits, (features, is_ill) in new.items():
            scores[habits] = float(model.score(features, np.where(is_ill, "ill", "well")))
        accuracies[name] = scores
    return accuracies


def main() -> None:
    """Prints the table of accuracies."""
    parser = argparse.ArgumentParser(description="Plain training beside InvariantClassifier.")
    parser.add_argument("--random-state", type=int, default=0, help="other data, other networks")
    accuracies = compare(parser.parse_args().random_state)
    print("Accuracy. From the markers, 0.90 is the limit: one diagnosis in ten is noise.\n")
    print(f"{'':40}" + "".join(f"{name:>16}" for name in accuracies))
    for place in accuracies["AND-mask"]:
        where = place if place.startswith("the") else f"new hospital, {place}"
        print(f"{where:40}" + "".join(f"{scores[place]:>16.2f}" for scores in accuracies.values()))


if __name__ == "__main__":
    main()
