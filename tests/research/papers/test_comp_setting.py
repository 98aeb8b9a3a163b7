"""The drawn setting of COMP; the law of its users' cells is tested beside CLIP-USER."""

from hexveil_research.papers.comp_setting import comp_setting


def test_heavy_hitters_alone_grow_with_gamma():
    """One count of each cell is multiplied; the seed gives everything else."""
    plain, heavy = comp_setting(0, 5), comp_setting(6, 5)
    changed = plain.n != heavy.n
    assert changed.sum() == plain.n_cells
    assert (heavy.n[changed] == 7 * plain.n[changed]).all()
    assert comp_setting(6, 5).fingerprint == heavy.fingerprint != comp_setting(6, 6).fingerprint
