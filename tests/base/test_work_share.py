"""The completed share of work that is shown."""

from hexveil.base.work_share import READING, ShownWork, part_of_work, shown_work, tell_share


def test_parts_of_parts_add_up_and_no_share_goes_back():
    """Other work is not heard, nor what is told once nothing is shown."""
    shares = []
    with shown_work(ShownWork(READING)) as work:
        for number in range(4):
            with part_of_work(READING, number, 4), part_of_work("Other", 0, 1):
                tell_share("Other", 0.9)
                tell_share(READING, 0.5)
                tell_share(READING, 0.1)
                shares.append(work.share)
    tell_share(READING, 0.2)
    assert shares == [0.125, 0.375, 0.625, 0.875]
    assert work.share == 1.0
