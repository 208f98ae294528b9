"""A gloo group, as a rank leaves it."""

import threading

import pytest

pytest.importorskip("torch")

import torch

from isoradix.consensus.rendezvous import Group


def test_a_group_waits_until_the_last_collective_has_let_go_of_its_tensors() -> None:
    group = object.__new__(Group)  # connected to nobody
    lent, free = torch.zeros(4), torch.zeros(4)
    held = [lent.view(2, 2)]  # as gloo's thread holds it: not by its wrapper
    group.lend(free, lent)
    let_go = threading.Timer(0.1, held.clear)
    let_go.start()
    group.settle()
    assert held == []
    let_go.join()


def test_a_group_waits_no_longer_than_half_a_second() -> None:
    group = object.__new__(Group)
    lent = torch.zeros(4)
    held = lent.view(2, 2)
    group.lend(lent)
    group.settle()
    assert held._use_count() == 1
