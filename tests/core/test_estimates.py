"""Seconds of a round by its length, from rounds and from what was known before."""

from mmspec.estimates import RoundCosts


def test_costs_lie_on_lines_between_medians():
    costs = RoundCosts()
    for k, seconds in ((0, [1, 1, 9]), (4, [3, 3, 3, 50])):
        for each in seconds:
            costs.observe(k, each, late=False)
    assert [costs.seconds(k) for k in (0, 1, 2, 4, 6)] == [1, 1.5, 2, 3, 4]
    costs.observe(4, 7.0, late=True)
    assert costs.seconds(4) == 3
    costs.observe(8, 7.0, late=True)
    assert costs.seconds(8) == 7


def test_one_cost_far_off_makes_the_others_doubtful():
    costs = RoundCosts()
    costs.observe(0, 1.0, late=False)
    costs.tell({2: 1.2, 4: 1.4, 8: 1.8})
    for seconds in (1.3, 2.3):
        costs.observe(4, seconds, late=False)
    assert [costs.seconds(k) for k in (2, 4, 8)] == [1.2, 1.4, 1.8]
    costs.observe(4, 9.0, late=False)
    costs.observe(8, 9.0, late=False)
    assert costs.seconds(8) == 1.8
    costs.observe(8, 9.0, late=False)
    assert costs.tried == [0, 4, 8]
    assert [costs.seconds(k) for k in (2, 4, 8)] == [1.65, 2.3, 9.0]
