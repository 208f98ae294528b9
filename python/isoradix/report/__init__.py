"""Self-contained HTML pages: SVG drawn here, style inlined, nothing fetched, no script.

`scale` (axes and number formats), `svg` (elements), `charts` and `icicle` (drawings), `machine` (what it was
measured on), `page` (the frame) and one module for each page: `replay`, `bench`, `sweep`.
"""
