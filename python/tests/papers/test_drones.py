"""Paper drones: what its radio says, without transport."""

import pytest

from multipilot.papers.drones import beams
from multipilot.papers.results import Results


def test_training_grows_with_devices_in_11ad_and_stops_at_the_chosen_ones() -> None:
    training = {(r["case"], r["devices"]): r["training_ms"] for r in beams.overhead_rows(Results())}
    assert training["802.11ad", 100] - training["802.11ad", 90] == pytest.approx(
        training["802.11ad", 20] - training["802.11ad", 10]
    )
    assert training["chosen", 100] == training["chosen", 40]
    assert training["802.11ad", 30] < training["chosen", 30]
    assert training["802.11ad", 50] > training["chosen", 50]


def test_each_allocation_has_an_energy_of_its_own() -> None:
    energy = {r["case"]: r["mbit_per_joule"] for r in beams.energy_rows(Results())}
    assert set(energy) == set(beams.NAMES)
    assert len(set(energy.values())) == len(energy)
    assert max(energy, key=lambda case: energy[case]) == "greedy"
    assert min(energy, key=lambda case: energy[case]) == "802.11ad"
