"""The lesson's live pictures: pure functions from parameters to a `View`.

A widget declares its controls and draws a view; no widget touches a page, and no script on a page
knows a formula. The same function draws the picture at build time and in the reader's browser.
"""
