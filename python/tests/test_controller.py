import pytest

from multipilot import Controller


def grown(name: str, windows: list[int], srtt_us: int = 20_000) -> list[float]:
    """Packets that one window's worth of ACKs adds to each of the subflows."""
    controller = Controller(name)
    slots = [controller.join(cwnd=w, ssthresh=2, srtt_us=srtt_us, rtt_us=srtt_us, min_rtt_us=srtt_us) for w in windows]
    growth = []
    for slot, window in zip(slots, windows, strict=True):
        before = controller.subflow(slot)["cwnd"]
        controller.on_ack(slot, acked=window)
        growth.append(controller.subflow(slot)["cwnd"] - before)
    return growth


def test_closed_forms() -> None:
    assert grown("reno", [100, 100]) == pytest.approx([1, 1], rel=0.01)
    # RFC 6356 with equal paths: α/W = 1/(4w), the first subflow's own growth aside.
    assert grown("lia", [100, 100]) == pytest.approx([0.25, 0.25], rel=0.02)
    assert grown("lia", [100]) == pytest.approx([1], rel=0.01)


def test_loss_halves_and_undo_restores() -> None:
    reno = Controller("reno")
    slot = reno.join(cwnd=100, srtt_us=20_000)
    assert reno.on_loss(slot) == 50
    assert reno.on_undo(slot) >= 100


def test_parameters_and_slots_are_checked() -> None:
    with pytest.raises(ValueError, match='no controller "nosuch"; there are pilot, reno, lia'):
        Controller("nosuch")
    with pytest.raises(KeyError, match="target_us"):
        Controller("rsf-db", target=1)
    assert Controller("rsf-db", target_us=50_000).name == "rsf-db"
    controller = Controller("lia")
    with pytest.raises(IndexError, match="slot 0"):
        controller.on_ack(0)
    with pytest.raises(KeyError, match="cwmd"):
        controller.join(cwmd=1)
    slots = [controller.join() for _ in range(8)]
    assert slots == list(range(8))
    with pytest.raises(IndexError, match="all 8"):
        controller.join()
    controller.on_close(3)
    assert controller.join() == 3
