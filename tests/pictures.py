"""Looking at a matplotlib figure."""

import pytest


def cut_off(figure):
    """Return the texts that do not lie within the figure; hidden tick labels do not count."""
    text_class = pytest.importorskip("matplotlib.text").Text
    figure.draw_without_rendering()
    frame = figure.bbox.padded(1)
    ticks = {
        id(text)
        for axes in figure.axes
        for text in (*axes.get_xticklabels(which="both"), *axes.get_yticklabels(which="both"))
    }
    shown = [t for t in figure.findobj(text_class) if t.get_visible() and t.get_text()]
    boxes = [(t, t.get_window_extent()) for t in shown if id(t) not in ticks]
    return [
        text.get_text()
        for text, box in boxes
        if not (frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1))
    ]
